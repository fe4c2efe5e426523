#include "common/state/finite.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr char kExpected[] = "finite values; did training diverge?";
// No section says which parameters are trained.
constexpr char kExpectedOfModel[] =
    "finite values; did training diverge? A constant, such as a mask, must be a buffer";

bool MustBeFinite(const std::string& section) {
  return section == kModelSection || section == kOptimizerSection;
}

}  // namespace

absl::Status CheckFinite(const StatePlan& plan, int part, absl::string_view bytes) {
  size_t at = 0;  // in `bytes`
  for (const StateRange& range : plan.RangesOf(part)) {
    const StateSection& section = plan.sections()[range.section];
    const StoredTensor& tensor = section.tensors[range.tensor];
    const absl::string_view values = bytes.substr(at, range.bytes);
    at += range.bytes;
    const int64_t element = RowOf(tensor.type).bytes;
    const int64_t cut = (element - range.begin % element) % element;  // bytes of one cut before
    if (!MustBeFinite(section.name) || cut >= range.bytes) continue;
    const int64_t found = FindNonFinite(tensor.type, values.substr(cut));
    if (found < 0) continue;
    return Unexpected(absl::StrCat(section.name, " '", tensor.key, "', element ",
                                   (range.begin + cut) / element + found),
                      "infinity or NaN",
                      section.name == kModelSection ? kExpectedOfModel : kExpected);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
