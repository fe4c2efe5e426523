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

// Whether an option comes from any layer but the defaults.
bool IsGiven(const Parsed<WorkerOptions>& parsed, const std::string& name);

// Whether options that are right each for itself fit together: those that are filled in, too.
// `backend_given`: by the user. InvalidArgument names the sources of two that do not, with what was
// got and what was expected; see ParseWorkerOptions.
absl::Status CheckWorkerOptions(const Parsed<WorkerOptions>& parsed, bool backend_given);

// Reads a worker's options from all layers (see OptionParser) and checks that
// they fit together. In the result
//   - `threads` is 0 if the coordinator is to say, else at least 1; of a process alone
//     the cores that it may use / local_world_size;
//   - `lr` is above 0 and `weight_decay` 0 or more;
//   - `evaluate` is true if `evaluate_every` is not 0;
//   - `backend` is one of the table or kAutoBackend, or "none" for a process alone;
//   - `bucket_cap_mb` is 0 or more;
//   - --master-ip and --num-nodes have become `coordinator` and `world_size`,
//     and so have their sources;
//   - `metrics` is empty if they are not served.
//
// Errors as OptionParser::Parse; and InvalidArgument if rank and world size
// exclude each other, two names for one thing were given in one layer,
// a sync that averages nothing is to run with others or with a back end, a back end is
// to carry more ranks than it can, `--barrier` is given with a sync that does not update
// late, an iteration's samples cannot be counted, weights are to be saved under a name that
// says no format, or an option of optimiser, schedule or scaling is given without what it is for.
// `program` stands in --help, for
// "gradwire env" takes the same options.
absl::StatusOr<Parsed<WorkerOptions>> ParseWorkerOptions(
    const std::vector<std::string>& args, const Environment& environment,
    const std::string& program = "gradwire-worker");

// Names of all options of a worker.
std::vector<std::string> WorkerOptionNames();

// The value of an option on which all ranks of a run must agree.
struct AgreedValue {
  Agreement agreement = Agreement::kCompared;  // never kMayDiffer
  std::string text;                            // as the option takes it
  std::string shown;                           // the same; a default as --help shows it
  bool is_default = true;
};
// Those of `options`, by the option's name.
std::map<std::string, AgreedValue> AgreedValues(const WorkerOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_
