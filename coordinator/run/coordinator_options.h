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

namespace gradwire {

inline constexpr char kRecover[] = "recover";
inline constexpr char kStop[] = "stop";

// Everything a coordinator can be told. Names, units and meaning:
// `gradwire-coordinator --help`. Defaults are here and nowhere else.
struct CoordinatorOptions {
  std::string listen = "0.0.0.0:29400";  // port 0 picks one and prints it
  int world_size = 1;                    // ranks
  int workers = 0;                       // processes that carry them; 0: as many as ranks
  int aggregators = 0;                   // separate ones that back end sharded is to use
  bool aggregate_only = false;           // be such an aggregator, of the run of `coordinator`
  std::string coordinator = "127.0.0.1:29400";
  std::string advertise;  // host that workers use; empty: of the connection to the coordinator
  double connect_timeout_seconds = 30;
  std::string metrics = "127.0.0.1:9400";   // "off": not served
  std::string http_names;                   // of this host, for pages; separated by commas
  bool http_token = false;                  // pages ask for the token, too
  std::string port_file;                    // bound addresses are written here
  std::string trace;                        // time line of the sums is written here
  std::string aggregation_summary;          // what it did in an iteration is written here
  double min_lease_seconds = 1;             // silence after which a worker is lost: at least
  double lease_seconds = 10;                // and at most
  std::string on_loss = kRecover;           // what becomes of the run: recover or stop
  int min_workers = 1;                      // that a run goes on with after a loss
  double pause_timeout_seconds = 0;         // that it waits with fewer for silent ones
  double rendezvous_timeout_seconds = 600;  // until all workers are there
  double linger_seconds = 0;                // still serves metrics after the run's end
  uint64_t chunk_kib = 256;                 // longest piece of Gather and Scatter
  std::string instructions;                 // empty: the best that the processor has
  SecurityOptions security;
  // In front of each line of its log, for a process that logs other things too. Not an option.
  std::string log_prefix;
};

// Adds a coordinator's options to `parser`, all but --world-size: it is the
// number of workers to `gradwire launch`, which takes the other ones as they are.
void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser);

// That the coordinator may serve where, and to whom, it is told. InvalidArgument if pages are to
// ask for a token and none is given; and as CheckReach.
absl::Status CheckServing(const CoordinatorOptions& options);

// Reads a coordinator's options from all layers (see OptionParser; a launcher's
// environment says nothing to it). Errors as OptionParser::Parse. `metrics` is
// "off" if they are not served.
absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment);

// Writes "grpc=HOST:PORT" and, if `metrics` is not empty, "metrics=HOST:PORT" to
// `path`, whole or not at all. FailedPrecondition says why it cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTIONS_H_
