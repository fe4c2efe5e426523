#ifndef GRADWIRE_CLI_CHECKPOINT_CHECKPOINT_OPTIONS_H_
#define GRADWIRE_CLI_CHECKPOINT_CHECKPOINT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

enum class CheckpointAction { kList, kVerify, kExport };

struct CheckpointOptions {
  std::string run_dir;
  absl::optional<int64_t> step;
  bool json = false;
  std::string model;      // file for the model's state dict
  std::string optimizer;  // file for the optimizer's
};

// The program's name in messages: "gradwire checkpoint list".
std::string ProgramOf(CheckpointAction action);

// Reads the arguments after the action: DIR, a STEP unless the action is kList, and options.
// Errors of OptionParser::Parse, and InvalidArgument: no DIR, too many words, a STEP that is no
// number, or files to export that are missing, have no known extension or cannot be written.
absl::StatusOr<Parsed<CheckpointOptions>> ParseCheckpointOptions(
    CheckpointAction action, const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_CHECKPOINT_CHECKPOINT_OPTIONS_H_
