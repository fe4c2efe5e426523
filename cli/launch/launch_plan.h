#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_PLAN_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/launch/launch_options.h"
#include "cli/launch/supervisor.h"
#include "common/base/environment.h"
#include "common/base/ids.h"

namespace gradwire {

// Where things are during a launch.
struct LaunchPlaces {
  std::string program_dir;  // gradwire-coordinator and gradwire-worker are in it
  std::string scratch_dir;  // private to this launch
};

// Whether there is anything to coordinate.
bool NeedsCoordinator(const LaunchOptions& options);

std::string PortFile(const LaunchOptions& options, const LaunchPlaces& places);
// The ranks of worker 0, 1, ...: an even, contiguous deal.
std::vector<Rank> RanksOf(const LaunchOptions& options, int worker);

// Of rank 3, or with {rank} as the worker puts its own.
std::string SummaryFile(const absl::AlphaNum& rank, const LaunchPlaces& places);
// Of a worker, or of the coordinator, whose number is that of the workers.
std::string TraceFile(int process, const LaunchPlaces& places);

Member CoordinatorMember(const LaunchOptions& options, const LaunchPlaces& places,
                         const Environment& environment);

// `coordinator`: "host:port" that workers connect to; "" without one.
// `bar_columns`: worker 0 draws a bar for a terminal of this width, the others are
// quiet; 0: none draws. GRADWIRE_PROGRESS in the environment goes before.
Member WorkerMember(const LaunchOptions& options, const LaunchPlaces& places,
                    const Environment& environment, int worker, const std::string& coordinator,
                    int bar_columns);

// Likewise, of --program: its arguments are passed on as they stand.
Member ProgramMember(const LaunchOptions& options, const Environment& environment, int rank,
                     const std::string& coordinator);

// `path` of one of several ranks: {rank} replaced, or else the rank put in front
// of the extension ("run.rank1.jsonl"). One rank alone keeps a plain path.
std::string PathForRank(const std::string& path, const absl::AlphaNum& rank, int world_size);

// "host:port+rank"; port 0 stays 0. InvalidArgument if `address` is no HOST:PORT
// or the sum is beyond 65535.
absl::StatusOr<std::string> AddressForRank(const std::string& address, int rank);

// What the coordinator wrote to its port file ("grpc=host:port", a line each):
// the address to connect to, where 0.0.0.0 and [::] have become the loopback
// address. Empty if it is not there yet.
std::string CoordinatorAddress(absl::string_view port_file_text);
// Likewise, "host:port" of the metrics; empty if they are not served.
std::string MetricsAddress(absl::string_view port_file_text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_PLAN_H_
