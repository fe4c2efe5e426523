#include "tests/coordinator/membership/test_hello.h"

#include "absl/strings/str_cat.h"
#include "common/wire/layout.h"

namespace gradwire::testing {

v1::Hello TestHello(uint64_t id, std::optional<int> rank) {
  v1::Hello hello;
  hello.set_incarnation(id);
  if (rank) hello.set_rank(*rank);
  hello.set_address(absl::StrCat("10.10.1.2:", id));
  ToProto(Layout{{"fc1.weight", {2, 3}, "float32", false}}, &hello);
  ToProto(std::vector<BucketSpec>{{24, v1::DTYPE_FLOAT32}}, &hello);
  (*hello.mutable_settings())["lr"] = "0.1";
  (*hello.mutable_settings())["seed"] = "744";
  return hello;
}

}  // namespace gradwire::testing
