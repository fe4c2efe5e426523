#include "worker/options/compute_seconds.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/options/option_values.h"

namespace gradwire {
namespace {

constexpr double kMostSeconds = 3600;

// False of NaN, too.
bool ReadSeconds(absl::string_view text, double* seconds) {
  return absl::SimpleAtod(text, seconds) && *seconds >= 0 && *seconds <= kMostSeconds;
}

OptionValue ComputeSecondsValue(absl::optional<ComputeSeconds>* field) {
  OptionValue value;
  value.set = [field](const std::string& text) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
    ComputeSeconds seconds;
    if (parts.size() != 2 || !ReadSeconds(parts[0], &seconds.forward) ||
        !ReadSeconds(parts[1], &seconds.backward)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "got '", text, "', expected seconds of forward and backward, each from 0 to ",
          kMostSeconds, ", such as 0.3,0.6"));
    }
    *field = seconds;
    return absl::OkStatus();
  };
  value.get = [field] { return ToString(*field); };
  return value;
}

}  // namespace

std::string ToString(const absl::optional<ComputeSeconds>& seconds) {
  return seconds.has_value() ? absl::StrCat(seconds->forward, ",", seconds->backward) : "";
}

void AddComputeSeconds(absl::optional<ComputeSeconds>* field, OptionParser* parser) {
  parser->Add("compute-seconds", "F,B",
              "emulate computation: sleep F s in forward and B s in backward of each step, and"
              "\nlearn nothing",
              WithDefault(ComputeSecondsValue(field), "computes"),
              Agreement::kSettingUnlessDefault);
}

}  // namespace gradwire
