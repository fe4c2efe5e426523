#include "cli/checkpoint/checkpoint_options.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

struct Words {
  const char* program;
  const char* description;
  const char* footer;
};

constexpr char kListFooter[] =
    "Exit: 0 listed, also if some are damaged; 2 DIR cannot be read.\n"
    "\n"
    "Example: gradwire checkpoint list run";
constexpr char kVerifyFooter[] =
    "Exit: 0 all are sound; 2 one is damaged, or there is none.\n"
    "\n"
    "Example: gradwire checkpoint verify run";
constexpr char kExportFooter[] =
    "Exit: 0 written; 2 the checkpoint is damaged, or a file cannot be written.\n"
    "\n"
    "Example: gradwire checkpoint export run --to model.pt --optimizer-to optimizer.pt";

Words WordsOf(CheckpointAction action) {
  switch (action) {
    case CheckpointAction::kList:
      return {
          "gradwire checkpoint list",
          "Lists the checkpoints of the run directory DIR, newest first: step, time, size, and\n"
          "why one cannot be used. Reads manifests and the files' headers, not all values.",
          kListFooter};
    case CheckpointAction::kVerify:
      return {"gradwire checkpoint verify",
              "Reads every byte of the checkpoint of STEP, or of all checkpoints in DIR, and\n"
              "compares it with what was written.",
              kVerifyFooter};
    case CheckpointAction::kExport:
      return {"gradwire checkpoint export",
              "Writes the model of the checkpoint of STEP, or of the newest sound one, as a state\n"
              "dict, and its optimizer as optimizer.state_dict(), for PyTorch.",
              kExportFooter};
  }
  return {};
}

void AddAll(CheckpointAction action, CheckpointOptions* options, OptionParser* parser) {
  parser->Group("Checkpoint");
  if (action == CheckpointAction::kExport) {
    parser->Add("to", "FILE", "file for the model's state dict: .safetensors, .pt or .pth",
                WithDefault(Text(&options->model), "not written"));
    parser->Add("optimizer-to", "FILE", "file for the optimizer's state dict: .pt or .pth",
                WithDefault(Text(&options->optimizer), "not written"));
  }
  parser->Add("json", "true|false", "print as JSON", Switch(&options->json));
  parser->TakeOperands("DIR", action == CheckpointAction::kList
                                  ? "run directory, as given to --run-dir"
                                  : "run directory, as given to --run-dir; after it a STEP");
}

absl::Status ReadOperands(const std::vector<std::string>& operands, size_t most,
                          CheckpointOptions* options) {
  if (operands.empty() || operands.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat("got ", operands.size(), " arguments, expected ",
                                                   most == 1 ? "DIR" : "DIR or DIR STEP"));
  }
  options->run_dir = operands[0];
  int64_t step = 0;
  if (operands.size() == 1) return absl::OkStatus();
  if (!absl::SimpleAtoi(operands[1], &step) || step < 0) {
    return Unexpected("STEP", absl::StrCat("'", operands[1], "'"), "a whole number from 0");
  }
  options->step = step;
  return absl::OkStatus();
}

// Also if their names differ, as those of a file and of a link to it.
bool AreSameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  const auto resolved = [&ignored](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return resolved(a) == resolved(b);
}

bool IsTorchName(const std::string& path) {
  return absl::EndsWith(path, ".pt") || absl::EndsWith(path, ".pth");
}

absl::Status CheckFiles(const CheckpointOptions& options) {
  if (options.model.empty() && options.optimizer.empty()) {
    return absl::InvalidArgumentError(
        "got no file, expected --to FILE, --optimizer-to FILE or both");
  }
  if (!options.model.empty() && !IsTorchName(options.model) &&
      !absl::EndsWith(options.model, ".safetensors")) {
    return Unexpected("--to", absl::StrCat("'", options.model, "'"),
                      "a name that ends in .safetensors, .pt or .pth");
  }
  if (!options.optimizer.empty() && !IsTorchName(options.optimizer)) {
    return Unexpected("--optimizer-to", absl::StrCat("'", options.optimizer, "'"),
                      "a name that ends in .pt or .pth; safetensors cannot hold its groups");
  }
  if (!options.model.empty() && !options.optimizer.empty() &&
      AreSameFile(options.model, options.optimizer)) {
    return Unexpected("--optimizer-to", "the file of --to", "another file");
  }
  for (const std::string& path : {options.model, options.optimizer}) {
    const absl::Status status = path.empty() ? absl::OkStatus() : CheckWritable(path);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::string ProgramOf(CheckpointAction action) { return WordsOf(action).program; }

absl::StatusOr<Parsed<CheckpointOptions>> ParseCheckpointOptions(
    CheckpointAction action, const std::vector<std::string>& args, const Environment& environment) {
  const Words words = WordsOf(action);
  Parsed<CheckpointOptions> parsed;
  OptionParser parser(words.program, words.description, {"checkpoint"});
  AddAll(action, &parsed.options, &parser);
  parser.Footer(words.footer);
  // Other commands use this variable.
  Environment own = environment;
  own.erase(VariableOf("json"));
  absl::Status status = parser.Parse(args, own, {}, &parsed);
  if (!status.ok()) return status;
  if (!parsed.print.empty()) return parsed;
  const size_t most = action == CheckpointAction::kList ? 1 : 2;
  status = ReadOperands(parser.operands(), most, &parsed.options);
  if (status.ok() && action == CheckpointAction::kExport) status = CheckFiles(parsed.options);
  if (!status.ok()) return status;
  return parsed;
}

}  // namespace gradwire
