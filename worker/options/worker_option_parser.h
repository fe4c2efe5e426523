#ifndef GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_
#define GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// Whether any layer except the defaults sets the option.
bool IsGiven(const Parsed<WorkerOptions>& parsed, const std::string& name);

// Checks that options fit together, after defaults are filled in. `backend_given`: whether the user
// named a back end. InvalidArgument names the sources of two that conflict, with the value that was
// got and the one expected; see ParseWorkerOptions.
absl::Status CheckWorkerOptions(const Parsed<WorkerOptions>& parsed, bool backend_given);

// Reads a worker's options from all layers (see OptionParser) and checks that they fit together. In
// the result
//   - `threads` is 0 if the coordinator decides, else at least 1; a process alone takes the cores
//     that it may use / local_world_size;
//   - `lr` is above 0 and `weight_decay` 0 or more;
//   - `evaluate` is true if `evaluate_every` is not 0;
//   - `backend` is in the table or is kAutoBackend, or is "none" for a process alone;
//   - `bucket_cap_mb` is 0 or more;
//   - --master-ip and --num-nodes are copied to `coordinator` and `world_size`, and so are their
//     sources;
//   - `metrics` is empty if none are served.
//
// `program` is the name in --help: "gradwire env" takes the same options.
//
// Errors: those of OptionParser::Parse, and InvalidArgument if
//   - rank and world size exclude each other;
//   - one layer gives two names of one option;
//   - a sync that averages nothing has other ranks or a back end;
//   - a back end must carry more ranks than it can;
//   - `--barrier` is given with a sync that does not update late;
//   - the number of samples of an iteration overflows;
//   - the file name for weights has no known extension;
//   - an option is given without the optimizer, schedule or option that it needs.
absl::StatusOr<Parsed<WorkerOptions>> ParseWorkerOptions(
    const std::vector<std::string>& args, const Environment& environment,
    const std::string& program = "gradwire-worker");

// Returns the names of all options of a worker.
std::vector<std::string> WorkerOptionNames();

// The value of an option on which all ranks of a run must agree.
struct AgreedValue {
  Agreement agreement = Agreement::kCompared;  // never kMayDiffer
  std::string text;                            // as the option takes it
  std::string shown;                           // the same, but a default as --help shows it
  bool is_default = true;
};
// Returns those of `options`, by name.
std::map<std::string, AgreedValue> AgreedValues(const WorkerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_
