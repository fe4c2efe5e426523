#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "cli/checkpoint/checkpoint_options.h"
#include "cli/terminal/commands.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"
#include "common/state/checkpoints.h"
#include "common/state/export.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCheckpointProgram[] = "gradwire checkpoint";
constexpr char kCheckpointHelp[] =
    "Usage: gradwire checkpoint COMMAND DIR [STEP] [OPTIONS]\n\n"
    "Commands:\n"
    "  list    list the checkpoints of a run directory\n"
    "  verify  read every byte of checkpoints and compare it with what was written\n"
    "  export  write a checkpoint's model and optimizer for PyTorch\n\n"
    "'gradwire checkpoint COMMAND --help' shows its options.\n";

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

// Bytes of all files but the manifest.
int64_t BytesOf(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

Json ToJson(const CheckpointState& state) {
  Json json = {{"step", state.folder.step},
               {"path", state.folder.path},
               {"sound", state.status.ok()},
               {"why", std::string(state.status.message())}};
  if (!state.manifest.has_value()) return json;
  const Manifest& manifest = *state.manifest;
  json["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", manifest.time, absl::UTCTimeZone());
  json["bytes"] = BytesOf(manifest);
  json["run_id"] = manifest.run_id;
  json["world_size"] = manifest.world_size;
  json["finished"] = manifest.finished;
  return json;
}

std::string ToText(const CheckpointState& state) {
  const std::string why = WithoutControls(state.status.message());
  if (!state.manifest.has_value()) return absl::StrFormat("%12d  %s\n", state.folder.step, why);
  const Manifest& manifest = *state.manifest;
  return absl::StrFormat("%12d  %s  %10.1f  %s\n", state.folder.step, TimeText(manifest.time),
                         static_cast<double>(BytesOf(manifest)) / 1e6,
                         !state.status.ok()  ? why
                         : manifest.finished ? "sound, finished"
                                             : "sound");
}

void Print(const std::vector<CheckpointState>& states, bool json) {
  if (json) {
    Json list = Json::array();
    for (const CheckpointState& state : states) list.push_back(ToJson(state));
    std::cout << list.dump(1, ' ', false, Json::error_handler_t::replace) << std::endl;
    return;
  }
  std::cout << absl::StrFormat("%12s  %-19s  %10s  %s\n", "step", "written", "MB", "state");
  for (const CheckpointState& state : states) std::cout << ToText(state);
  std::cout << std::flush;
}

absl::Status List(const CheckpointOptions& options) {
  const auto states = ScanRunDir(options.run_dir);
  if (!states.ok()) return states.status();
  Print(*states, options.json);
  return absl::OkStatus();
}

absl::Status Verify(const CheckpointOptions& options) {
  auto states = ScanRunDir(options.run_dir, options.step);
  if (!states.ok()) return states.status();
  VerifyAll(&*states);
  Print(*states, options.json);
  size_t damaged = 0;
  for (const CheckpointState& state : *states) damaged += state.status.ok() ? 0 : 1;
  if (states->empty()) {
    return absl::NotFoundError(absl::StrCat(options.run_dir, ": has no checkpoint"));
  }
  if (damaged == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(options.run_dir, ": ", damaged, " of ", states->size(), " damaged"));
}

absl::Status Export(const CheckpointOptions& options) {
  std::vector<std::string> skipped;
  const auto checkpoint = OpenCheckpoint(options.run_dir, options.step, &skipped);
  for (const std::string& sentence : skipped) {
    std::cerr << kCheckpointProgram << ": skipped " << WithoutControls(sentence) << std::endl;
  }
  if (!checkpoint.ok()) return checkpoint.status();
  absl::Status status;
  // First, because it may be refused; then no file is replaced.
  if (!options.optimizer.empty()) status = ExportOptimizer(**checkpoint, options.optimizer);
  if (status.ok() && !options.model.empty()) status = ExportModel(**checkpoint, options.model);
  if (!status.ok()) return status;
  const int64_t step = (*checkpoint)->manifest().step;
  if (options.json) {
    const Json json = {{"step", step}, {"to", options.model}, {"optimizer_to", options.optimizer}};
    std::cout << json.dump(1, ' ', false, Json::error_handler_t::replace) << std::endl;
  } else {
    std::cerr << kCheckpointProgram << ": exported step " << step << std::endl;
  }
  return absl::OkStatus();
}

int Run(CheckpointAction action, const std::vector<std::string>& args,
        const Environment& environment, absl::Status (*act)(const CheckpointOptions& options)) {
  const std::string program = ProgramOf(action);
  const auto parsed = ParseCheckpointOptions(action, args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(program, parsed)) return *exit_code;
  const absl::Status status = act(parsed->options);
  if (!status.ok()) {
    std::cerr << program << ": " << WithoutControls(status.message()) << std::endl;
  }
  return ExitAfterPrinting(program, ExitCode(status));
}

}  // namespace

int CheckpointCommand(const std::vector<std::string>& args, const Environment& environment) {
  const std::vector<std::string> actions = {"list", "verify", "export"};
  if (args.empty()) return NoSuchCommand(kCheckpointProgram, "command", actions, args);
  if (const auto exit_code = HelpOrVersion(kCheckpointProgram, kCheckpointHelp, args))
    return *exit_code;
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "list") return Run(CheckpointAction::kList, rest, environment, List);
  if (args[0] == "verify") return Run(CheckpointAction::kVerify, rest, environment, Verify);
  if (args[0] == "export") return Run(CheckpointAction::kExport, rest, environment, Export);
  return NoSuchCommand(kCheckpointProgram, "command", actions, args);
}

}  // namespace gradwire
