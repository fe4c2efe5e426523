// gradwire-models: prints the table of models for `gradwire models`; makes each model once.
#include <torch/torch.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/logging.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"
#include "worker/models/prepare.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire models";
constexpr char kDescription[] =
    "Lists the models that workers can train: parameters, how many of them are trained, buffers,\n"
    "input, and size of all tensors.";

void AddAll(ModelOptions* options, OptionParser* parser) {
  parser->Add("model", "NAME", DescribeChoices("show only this model:", ModelChoices()),
              WithDefault(Choice(&options->name, NamesOf(ModelChoices())), "all"));
  parser->Add("classes", "N", "number of classes", Integer(&options->classes, 1));
  parser->Add("hidden", "N", "replace classifiers by layers of features, N, N, classes units",
              WithDefault(Integer(&options->hidden, 1), "their own"));
  parser->Add("freeze-features", "true|false", "train only the classifiers",
              Switch(&options->freeze_features));
}

// Elements and bytes.
struct Size {
  int64_t elements = 0;
  int64_t trained = 0;
  double bytes = 0;
};

Size SizeOf(const std::vector<torch::Tensor>& tensors) {
  Size size;
  for (const torch::Tensor& tensor : tensors) {
    size.elements += tensor.numel();
    if (tensor.requires_grad()) size.trained += tensor.numel();
    size.bytes += static_cast<double>(tensor.nbytes());
  }
  return size;
}

std::string InputOf(const ImageShape& shape) {
  if (shape.vocabulary > 0) return absl::StrCat(shape.width, " token ids");
  const std::string pixels = absl::StrCat(shape.channels, "x", shape.height, "x", shape.width);
  return shape.scaled ? absl::StrCat(pixels, " or other") : pixels;
}

absl::Status Print(const ModelOptions& options) {
  const absl::StatusOr<std::shared_ptr<Model>> model = PrepareModel(options);
  if (!model.ok()) return model.status();
  const Size parameters = SizeOf((*model)->parameters());
  const Size buffers = SizeOf((*model)->buffers());
  std::cout << absl::StreamFormat("%-14s %12d %12d %9d  %-18s %7.1f\n", options.name,
                                  parameters.elements, parameters.trained, buffers.elements,
                                  InputOf((*model)->image_shape()),
                                  (parameters.bytes + buffers.bytes) / (1 << 20))
            << std::flush;
  return absl::OkStatus();
}

absl::Status PrintAll(ModelOptions options) {
  const std::vector<std::string> names =
      options.name.empty() ? NamesOf(ModelChoices()) : std::vector<std::string>{options.name};
  std::cout << absl::StreamFormat("%-14s %12s %12s %9s  %-18s %7s\n", "model", "parameters",
                                  "trained", "buffers", "input", "MiB");
  for (const std::string& name : names) {
    options.name = name;
    if (absl::Status status = Print(options); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  LogToStderr();
  Parsed<ModelOptions> parsed;
  OptionParser parser(kProgram, kDescription, {"models"});
  AddAll(&parsed.options, &parser);
  absl::Status status = parser.Parse(Arguments(argc, argv), CurrentEnvironment(), {}, &parsed);
  const auto exit_code = EarlyExit(kProgram, status, parsed.warnings, parsed.print);
  if (exit_code.has_value()) return *exit_code;
  status = PrintAll(parsed.options);
  if (status.ok()) return ExitAfterPrinting(kProgram, kExitDone);
  std::cerr << kProgram << ": " << status.message() << std::endl;
  return ExitCode(status);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
