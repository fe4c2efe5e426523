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

// What `gradwire launch` was told.
struct LaunchOptions {
  int workers = 1;       // processes
  std::string hostfile;  // names hosts that ssh reaches; empty: this machine
  int per_host = 0;      // workers on each; 0: as many as the file says
  std::string network;   // "10.10.1.0/24": of the hosts' addresses; empty: as the file says
  int world_size = 0;    // ranks that they carry; after parsing never 0
  CoordinatorOptions coordinator;
  // Of the coordinator, as given, by option; the rest is at its default.
  std::map<std::string, std::string> coordinator_texts;
  std::string summary;                                   // empty: not written
  std::string trace;                                     // likewise
  double link_gbit = 0;                                  // of every link; 0: unknown
  std::string config;                                    // empty: none
  std::string program;                                   // empty: gradwire-worker
  std::vector<std::string> worker_args;                  // what stands behind "--"
  std::map<int, std::vector<std::string>> rank_options;  // further ones of single ranks
  WorkerOptions worker;  // what worker_args mean to rank 0; defaults with a program
};

// Reads `args` (without "gradwire launch"): own options, those of the
// coordinator, "--", those of the workers. All are judged here, before anything
// is started; but what stands behind "--" for a --program is its own business.
//
// Errors as ParseWorkerOptions and ParseCoordinatorOptions; and InvalidArgument
// if a worker's option is one that the launcher sets itself, if --workers is more than the hosts
// have room for, if options of hosts are given without any, if `--sync none` is
// to run with several ranks, if there are fewer ranks than workers, if --rank-options names
// a rank beyond them, if --program cannot be run, or if an option is given that is of no use
// with it.
absl::StatusOr<Parsed<LaunchOptions>> ParseLaunchOptions(const std::vector<std::string>& args,
                                                         const Environment& environment);

// How many workers the hosts of a --hostfile have room for: `per_host` on each or, if that is 0,
// what slots=N behind it says, or 1. Whether its lines are right is not judged here.
int CountPlaces(const std::string& text, int per_host);

// "1: --seed 3; 2: --lr 1 --augment false" as lists of arguments by rank.
// InvalidArgument shows the part that has another form.
absl::StatusOr<std::map<int, std::vector<std::string>>> ParseRankOptions(const std::string& text);

// What all that is launched has in its environment: without what the launcher decides, or what is
// meant for the coordinator (GRADWIRE_LISTEN, GRADWIRE_METRICS), which gets it as arguments.
Environment MembersEnvironment(const Environment& environment, const std::string& config);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_OPTIONS_H_
