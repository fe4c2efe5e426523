#include "worker/backends/exchange.h"

#include "absl/strings/str_cat.h"

namespace gradwire {

std::string ToString(const BucketKey& key) {
  const std::string layout =
      key.layout == LayoutId(0) ? "" : absl::StrCat("layout ", key.layout.value(), ", ");
  return absl::StrCat(layout, "step ", key.step.value(), ", bucket ", key.bucket.value());
}

}  // namespace gradwire
