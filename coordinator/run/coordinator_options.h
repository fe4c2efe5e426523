#ifndef GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTIONS_H_
#define GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "common/options/security_options.h"
#include "coordinator/checkpoints/resume_choice.h"

namespace gradwire {

inline constexpr char kRecover[] = "recover";
inline constexpr char kStop[] = "stop";

// All options of a coordinator. `gradwire-coordinator --help` has names, units and meaning. Only
// this struct has the defaults.
struct CoordinatorOptions {
  std::string listen = "0.0.0.0:29400";  // port 0 selects a free port and prints it
  int world_size = 1;                    // ranks
  int workers = 0;                       // processes that carry the ranks; 0: as many as ranks
  int aggregators = 0;          // separate aggregators for back end sharded; 0: the workers
  bool aggregate_only = false;  // be a separate aggregator in the run of `coordinator`
  std::string coordinator = "127.0.0.1:29400";
  std::string advertise;  // empty: the address used to reach the coordinator
  double connect_timeout_seconds = 30;
  std::string metrics = "127.0.0.1:9400";   // "off": not served
  std::string http_names;                   // host names accepted by pages, comma-separated
  bool http_token = false;                  // pages require the token
  std::string port_file;                    // file for the bound addresses
  std::string trace;                        // file for the time line of the sums
  std::string aggregation_summary;          // file for the mean iteration
  double min_lease_seconds = 1;             // shortest silence after which a worker is lost
  double lease_seconds = 10;                // longest silence after which a worker is lost
  std::string on_loss = kRecover;           // what a loss means for the run: recover or stop
  int min_workers = 1;                      // with fewer, the run pauses, then ends
  double pause_timeout_seconds = 0;         // how long a paused run waits for silent workers
  double rendezvous_timeout_seconds = 600;  // longest wait for all workers to join
  double linger_seconds = 0;                // time to serve metrics after the run
  uint64_t chunk_kib = 256;                 // longest piece of Gather and Scatter
  std::string run_dir;                      // folder of checkpoints; empty: the run keeps nothing
  uint64_t checkpoint_every = 0;            // steps; 0: only at the end and on SIGUSR1
  int keep_checkpoints = 3;                 // older ones are deleted
  std::string resume = kResumeAuto;         // or never, or the step of a checkpoint
  std::string instructions;                 // empty: the best available
  SecurityOptions security;
  // Prefix of each log line, for a process with several components. Not an option.
  std::string log_prefix;
};

// Adds all of a coordinator's options to `parser` except --world-size, which `gradwire launch`
// computes from its number of workers.
void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser);

// Returns OK if the coordinator may listen on the addresses in `options`. InvalidArgument if pages
// require a token and none is given; otherwise the errors of CheckReach.
absl::Status CheckServing(const CoordinatorOptions& options);

// Returns OK if the options of checkpoints fit together: each of them needs --run-dir. `sources`
// has the sources of all options. InvalidArgument names the option.
absl::Status CheckKeeping(const CoordinatorOptions& options, const Sources& sources);

// Reads a coordinator's options from all layers except a launcher's environment; see OptionParser.
// Errors: as for OptionParser::Parse. `metrics` is "off" if they are not served.
absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment);

// Writes "grpc=HOST:PORT" and, if `metrics` is not empty, "metrics=HOST:PORT" to `path`,
// atomically. FailedPrecondition, with the reason, if that fails.
absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTIONS_H_
