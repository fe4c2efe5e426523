#include "tests/coordinator/membership/test_hello.h"

#include "absl/strings/str_cat.h"
#include "common/wire/layout.h"
#include "common/wire/protocol.h"

namespace gradwire::testing {

v1::Hello TestHello(uint64_t id, const std::vector<int>& ranks) {
  v1::Hello hello;
  hello.set_incarnation(id);
  hello.mutable_ranks()->Add(ranks.begin(), ranks.end());
  hello.set_address(absl::StrCat("10.10.1.2:", id));
  hello.set_protocol(kProtocolVersion);
  hello.set_version(GRADWIRE_VERSION);
  (*hello.mutable_settings())["lr"] = "0.1";
  (*hello.mutable_settings())["seed"] = "744";
  return hello;
}

v1::Offer TestOffer(uint64_t incarnation, const std::string& address) {
  v1::Offer offer;
  offer.set_incarnation(incarnation);
  offer.set_address(address);
  offer.set_protocol(kProtocolVersion);
  offer.set_version(GRADWIRE_VERSION);
  return offer;
}

v1::Layout TestLayout(int id) {
  v1::Layout layout = ToProto(Layout{{"fc1.weight", {2, 3}, "float32", false}},
                              {BucketSpec{24, v1::DTYPE_FLOAT32}});
  layout.set_id(id);
  return layout;
}

}  // namespace gradwire::testing
