#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_OPTIONS_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "coordinator/run/coordinator_options.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// The options of `gradwire launch`.
struct LaunchOptions {
  int workers = 1;       // processes
  std::string hostfile;  // file of ssh hosts; empty: this machine
  int per_host = 0;      // workers on each host; 0: as in the file
  std::string network;   // "10.10.1.0/24", to choose addresses; empty: as in the file
  int world_size = 0;    // ranks of all workers; never 0 after parsing
  CoordinatorOptions coordinator;
  // Options of the coordinator that were given: text by name.
  std::map<std::string, std::string> coordinator_texts;
  std::string summary;                                   // empty: not written
  std::string trace;                                     // empty: not written
  double link_gbit = 0;                                  // speed of every link; 0: unknown
  std::string config;                                    // empty: none
  std::string program;                                   // empty: gradwire-worker
  std::vector<std::string> worker_args;                  // the arguments after "--"
  std::map<int, std::vector<std::string>> rank_options;  // extra options of single ranks
  WorkerOptions worker;  // worker_args as rank 0 reads them; defaults with a program
};

// Reads `args` (without "gradwire launch"): options of the launcher and the coordinator, "--",
// options of the workers. Checks all of them before any process starts, except the arguments of a
// --program.
//
// Errors as ParseWorkerOptions and ParseCoordinatorOptions. InvalidArgument also if
//   - a worker's option is one that the launcher sets itself
//   - --workers exceeds the room on the hosts
//   - an option needs a --hostfile that is not given
//   - --config names a pipe or an open descriptor, which the workers cannot read
//   - `--sync none` has several ranks, or flags of the coordinator, which does not start
//   - the workers have certificates, but the coordinator has none
//   - there are fewer ranks than workers
//   - --rank-options names a rank that does not exist
//   - --program cannot be run, or excludes a given option
absl::StatusOr<Parsed<LaunchOptions>> ParseLaunchOptions(const std::vector<std::string>& args,
                                                         const Environment& environment);

// Returns the room for workers on the hosts of a --hostfile with the content `text`: `per_host` on
// each or, if that is 0, slots=N of its line, or 1. Does not check the lines.
int CountPlaces(const std::string& text, int per_host);

// Parses "1: --seed 3; 2: --lr 1 --augment false" into lists of arguments by rank. InvalidArgument
// shows the malformed part.
absl::StatusOr<std::map<int, std::vector<std::string>>> ParseRankOptions(const std::string& text);

// The environment of all launched processes: without the variables of options that the launcher
// sets, and without those of the coordinator (GRADWIRE_LISTEN, GRADWIRE_METRICS), which gets them
// as arguments.
Environment MembersEnvironment(const Environment& environment, const std::string& config);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_OPTIONS_H_
