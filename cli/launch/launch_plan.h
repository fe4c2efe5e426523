#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_PLAN_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/launch/launch_options.h"
#include "cli/launch/supervisor.h"
#include "common/base/environment.h"

namespace gradwire {

// Where things are during a launch.
struct LaunchPlaces {
  std::string program_dir;  // gradwire-coordinator and gradwire-worker are in it
  std::string scratch_dir;  // private to this launch
};

// Whether there is anything to coordinate.
bool NeedsCoordinator(const LaunchOptions& options);

std::string PortFile(const LaunchOptions& options, const LaunchPlaces& places);
std::string SummaryFile(int rank, const LaunchPlaces& places);
// Of a rank, or of the coordinator, whose number is the world size.
std::string TraceFile(int process, const LaunchPlaces& places);

Member CoordinatorMember(const LaunchOptions& options, const LaunchPlaces& places,
                         const Environment& environment);

// `coordinator`: "host:port" that workers connect to; "" without one.
// `bar_columns`: rank 0 draws a bar for a terminal of this width, the others are
// quiet; 0: none draws. GRADWIRE_PROGRESS in the environment goes before.
Member WorkerMember(const LaunchOptions& options, const LaunchPlaces& places,
                    const Environment& environment, int rank, const std::string& coordinator,
                    int bar_columns);

// Likewise, of --program: its arguments are passed on as they stand.
Member ProgramMember(const LaunchOptions& options, const Environment& environment, int rank,
                     const std::string& coordinator);

// `path` of one of several ranks: {rank} replaced, or else the rank put in front
// of the extension ("run.rank1.jsonl"). One worker alone keeps a plain path.
std::string PathForRank(const std::string& path, int rank, int workers);

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
