#ifndef GRADWIRE_CLI_ENV_ENV_COMMAND_H_
#define GRADWIRE_CLI_ENV_ENV_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "common/options/launch_environment.h"
#include "common/options/option_parser.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// A value that a worker started here would use, and where it comes from.
struct EnvValue {
  std::string name;    // "rank", "world-size", "local-rank", …
  std::string value;   // as shown to people
  bool known = false;  // false: `value` says why it is unknown
  std::string source;  // "--rank", "SLURM_PROCID", "default", …
};

// Rank, world size, local rank, local world size, coordinator, this host's address towards the
// coordinator, what the process may get of shared memory (or why it cannot share any), its
// MemoryId ("none" without shared memory), and the result of FindBlas.
std::vector<EnvValue> EnvValues(const Parsed<WorkerOptions>& parsed,
                                const LaunchEnvironment& launcher,
                                const absl::StatusOr<MemoryLimits>& memory,
                                const std::string& memory_id, const absl::StatusOr<Blas>& blas);

// One line per value.
std::string EnvText(const std::vector<EnvValue>& values);
// One object: {"rank": {"value": 3, "source": "RANK"}, …}; unknown values are null.
std::string EnvJson(const std::vector<EnvValue>& values);

// `gradwire env`: takes a worker's options and --json. Warns about a slow BLAS. Returns the exit
// code.
int EnvCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_ENV_ENV_COMMAND_H_
