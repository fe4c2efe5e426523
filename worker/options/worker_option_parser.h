#ifndef GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_
#define GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// Reads a worker's options from all layers (see OptionParser) and checks that
// they fit together. In the result
//   - `threads` is at least 1: the cores of this process / local_world_size;
//   - `backend` may be empty (DefaultBackend(sync));
//   - `bucket_cap_mb` is 0 or more;
//   - --master-ip and --num-nodes have become `coordinator` and `world_size`,
//     and so have their sources;
//   - `metrics` is empty if they are not served.
//
// Errors as OptionParser::Parse; and InvalidArgument if rank and world size
// exclude each other, two names for one thing were given in one layer,
// `--sync none` is to run with others or with a back end, `--barrier` is given
// with another sync than ddp, or an iteration's samples cannot be counted. `program` stands in
// --help, for "gradwire env" takes the same options.
absl::StatusOr<Parsed<WorkerOptions>> ParseWorkerOptions(
    const std::vector<std::string>& args, const Environment& environment,
    const std::string& program = "gradwire-worker");

// Names of all options of a worker.
std::vector<std::string> WorkerOptionNames();

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_PARSER_H_
