#include "worker/options/model_flags.h"

#include "absl/strings/str_cat.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMaxHidden = 1 << 20;

}  // namespace

void AddModelFlags(ModelFlags* flags, OptionParser* parser) {
  parser->Add("model", "NAME", DescribeChoices("the network:", ModelChoices()),
              Choice(&flags->model, NamesOf(ModelChoices())), Agreement::kSetting);
  parser->Add("image-size", "N", "scale images to NxN pixels for the model",
              WithDefault(Integer(&flags->image_size, 1, kMaxImageSize), "the model's"),
              Agreement::kSettingUnlessDefault);
  parser->Add("hidden", "N", "replace the model's classifier by layers features, N, N, classes",
              WithDefault(Integer(&flags->hidden, 1, kMaxHidden), "its own classifier"),
              Agreement::kSettingUnlessDefault);
  parser->Add("freeze-features", "true|false", "train the model's classifier alone",
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

}  // namespace gradwire
