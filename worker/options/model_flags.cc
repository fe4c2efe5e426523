#include "worker/options/model_flags.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/options/option_values.h"
#include "worker/options/choices.h"

namespace gradwire {

namespace {

constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMaxHidden = 1 << 20;

}  // namespace

void AddModelFlags(ModelFlags* flags, OptionParser* parser) {
  parser->Add("model", "NAME", DescribeChoices("model to train:", ModelChoices()),
              Choice(&flags->model, NamesOf(ModelChoices())), Agreement::kSetting);
  parser->Add("image-size", "N", "scale images to NxN pixels",
              WithDefault(Integer(&flags->image_size, 1, kMaxImageSize), "the model's"),
              Agreement::kSettingUnlessDefault);
  parser->Add("hidden", "N", "replace the classifier by layers of features, N, N, classes units",
              WithDefault(Integer(&flags->hidden, 1, kMaxHidden), "its own classifier"),
              Agreement::kSettingUnlessDefault);
  parser->Add("freeze-features", "true|false", "train only the classifier of the model",
              Switch(&flags->freeze_features), Agreement::kSettingUnlessDefault);
}

std::vector<std::string> ToArguments(const ModelFlags& flags) {
  std::vector<std::string> args = {"--model", flags.model};
  if (flags.image_size > 0)
    args.insert(args.end(), {"--image-size", absl::StrCat(flags.image_size)});
  if (flags.hidden > 0) args.insert(args.end(), {"--hidden", absl::StrCat(flags.hidden)});
  if (flags.freeze_features) args.push_back("--freeze-features");
  return args;
}

namespace {

constexpr double kMostSeconds = 3600;

// False for NaN, too.
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
  if (!seconds.has_value()) return "";
  return absl::StrCat(RealText(seconds->forward), ",", RealText(seconds->backward));
}

void AddComputeSeconds(absl::optional<ComputeSeconds>* field, OptionParser* parser) {
  parser->Add("compute-seconds", "F,B",
              "emulate computation: sleep F s in forward and B s in backward of each step\n"
              "(nothing is learned)",
              WithDefault(ComputeSecondsValue(field), "computes"),
              Agreement::kSettingUnlessDefault);
}

}  // namespace gradwire
