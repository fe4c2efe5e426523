#include "coordinator/coordinator_option_parser.h"

namespace gradwire {
namespace {

constexpr char kDescription[] =
    "Brings the workers of one run together, averages their gradients for the back end\n"
    "'coordinator', and watches over all of them.";

constexpr char kFooter[] =
    "Each option can also be given as GRADWIRE_NAME in the environment (GRADWIRE_WORLD_SIZE) or\n"
    "as a key of the --config file (world-size = 4), at its top or in its section\n"
    "[coordinator]: flag > GRADWIRE_NAME > file > default.";

}  // namespace

void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group("Coordinator");
  parser->Add("listen", "HOST:PORT", "where workers connect; port 0 picks one and prints it",
              ListenAddress(&options->listen));
  parser->Add("metrics", "HOST:PORT", "serve Prometheus metrics and /healthz; or off",
              ListenAddressOrOff(&options->metrics));
  parser->Add("port-file", "FILE", "write the bound addresses to FILE", Text(&options->port_file));
  parser->Add("lease-seconds", "SECONDS", "silence after which a worker is lost",
              RealAbove(&options->lease_seconds, 0));
  parser->Add("rendezvous-timeout-seconds", "SECONDS", "wait for all workers to be there",
              RealAbove(&options->rendezvous_timeout_seconds, 0));
  parser->Add("chunk-kib", "KiB", "size of a chunk of Gather and Scatter",
              Integer(&options->chunk_kib, 1, 4096));
}

absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment) {
  Parsed<CoordinatorOptions> parsed;
  OptionParser parser("gradwire-coordinator", kDescription, {"coordinator"});
  parser.Footer(kFooter);
  AddCoordinatorOptions(&parsed.options, &parser);
  parser.Add("world-size", "N", "ranks in the run", Integer(&parsed.options.world_size, 1, 65535));
  const absl::Status status = parser.Parse(args, environment);
  if (!status.ok()) return status;
  parsed.print = parser.print();
  parsed.sources = parser.sources();
  parsed.texts = parser.texts();
  parsed.warnings = UnknownVariables(environment);
  return parsed;
}

}  // namespace gradwire
