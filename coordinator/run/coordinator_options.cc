#include "coordinator/run/coordinator_options.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/output_file.h"
#include "common/options/security_options.h"
#include "common/rpc/reach.h"

namespace gradwire {

namespace {

constexpr char kGroup[] = "Coordinator";
constexpr char kDescription[] =
    "Brings the workers of one run together, averages their gradients for the back end\n"
    "'coordinator', and watches over all of them.";

constexpr char kFooter[] =
    "Each option can also be given as GRADWIRE_NAME in the environment (GRADWIRE_WORLD_SIZE) or\n"
    "as a key of the --config file (world-size = 4), at its top or in its section\n"
    "[coordinator]: flag > GRADWIRE_NAME > file > default.";

void AddAggregatorOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group("Separate aggregator");
  parser->Add("aggregate-only", "true|false",
              "be one of the separate aggregators of another coordinator's run",
              Switch(&options->aggregate_only));
  parser->Add("coordinator", "HOST:PORT", "with --aggregate-only: where that coordinator listens",
              ConnectAddress(&options->coordinator));
  parser->Add("advertise", "HOST", "with --aggregate-only: host name or address that workers use",
              WithDefault(Text(&options->advertise), "of the connection to the coordinator"));
  parser->Add("connect-timeout-seconds", "SECONDS",
              "with --aggregate-only: wait for the coordinator to answer",
              RealAbove(&options->connect_timeout_seconds, 0));
}

}  // namespace

void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group(kGroup);
  parser->Add("listen", "HOST:PORT", "where workers connect; port 0 picks one and prints it",
              ListenAddress(&options->listen));
  parser->Add("metrics", "HOST:PORT", "serve Prometheus metrics and /healthz; or off",
              ListenAddressOrOff(&options->metrics));
  parser->Add("http-names", "NAMES",
              "names of this host for the pages, with commas, beside addresses and local names",
              Text(&options->http_names));
  parser->Add("http-token", "true|false",
              "ask for the token of --token-file there, too: as a password, or a bearer token",
              Switch(&options->http_token));
  parser->Add("port-file", "FILE", "write the bound addresses to FILE", Text(&options->port_file));
  parser->Add(
      "lease-seconds", "SECONDS",
      "silence after which a worker is lost, at most; sooner where its heartbeats are regular",
      RealAbove(&options->lease_seconds, 0));
  parser->Add("min-lease-seconds", "SECONDS",
              "the same at least; no more than --lease-seconds counts",
              RealAbove(&options->min_lease_seconds, 0));
  parser->Add(
      "on-loss", "NAME",
      "when a worker is lost: recover (others carry its ranks, with the same result), or stop",
      Choice(&options->on_loss, {kRecover, kStop}));
  parser->Add("min-workers", "N", "with fewer left the run is paused, and ends",
              Integer(&options->min_workers, 1, 65535));
  parser->Add("pause-timeout", "SECONDS",
              "how long it is paused for silent workers to be heard again; 0: it ends at once",
              RealFrom(&options->pause_timeout_seconds, 0));
  parser->Add("rendezvous-timeout-seconds", "SECONDS", "wait for all workers to be there",
              RealAbove(&options->rendezvous_timeout_seconds, 0));
  parser->Add("linger-seconds", "SECONDS",
              "after the end of the run serve metrics and pages for so long",
              RealFrom(&options->linger_seconds, 0));
  parser->Add("chunk-kib", "KiB", "longest piece of Gather and Scatter",
              Integer(&options->chunk_kib, 1, 4096));
  AddInstructionsOption(&options->instructions, parser);
  AddSecurityOptions(&options->security, parser);
  parser->Group(kGroup);
}

absl::Status CheckServing(const CoordinatorOptions& options) {
  absl::Status reach = CheckReach("--listen", options.listen, options.security);
  if (reach.ok()) reach = CheckReach("--metrics", options.metrics, options.security);
  if (!reach.ok()) return reach;
  if (!options.http_token || !options.security.token_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--http-token: there is no token to ask for; expected a --token-file with it");
}

absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment) {
  Parsed<CoordinatorOptions> parsed;
  OptionParser parser("gradwire-coordinator", kDescription, {"coordinator"});
  parser.Footer(kFooter);
  AddCoordinatorOptions(&parsed.options, &parser);
  parser.Add("aggregators", "N",
             "separate aggregators that back end sharded uses; 0: the workers themselves",
             Integer(&parsed.options.aggregators, 0, 65535));
  parser.Add("trace", "FILE", "time line of its sums, in Chrome's trace format (for Perfetto)",
             Text(&parsed.options.trace));
  parser.Add("aggregation-summary", "FILE",
             "write what it did in an iteration, on average, to FILE as JSON",
             Text(&parsed.options.aggregation_summary));
  parser.Add("world-size", "N", "ranks in the run", Integer(&parsed.options.world_size, 1, 65535));
  parser.Add("workers", "N", "processes that carry the ranks, each one or several",
             WithDefault(Integer(&parsed.options.workers, 1, 65535), "as many as --world-size"));
  AddAggregatorOptions(&parsed.options, &parser);
  const absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (!status.ok()) return status;
  if (parsed.options.workers > parsed.options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("--workers: got ", parsed.options.workers,
                                                   ", expected at most --world-size, ",
                                                   parsed.options.world_size));
  }
  if (absl::Status serving = CheckServing(parsed.options); !serving.ok()) return serving;
  if (parsed.options.aggregate_only && !parsed.options.trace.empty()) {
    return absl::InvalidArgumentError("--trace: not with --aggregate-only");
  }
  if (parsed.options.aggregate_only && !parsed.options.aggregation_summary.empty()) {
    return absl::InvalidArgumentError("--aggregation-summary: not with --aggregate-only");
  }
  return parsed;
}

absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics) {
  std::string text = absl::StrCat("grpc=", grpc, "\n");
  if (!metrics.empty()) absl::StrAppend(&text, "metrics=", metrics, "\n");
  // Renamed into place, so that nobody reads half of it.
  const absl::Status written = ReplaceFile(path, text);
  if (written.ok()) return written;
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot write port file ", absl::StripPrefix(written.message(), "cannot write ")));
}

}  // namespace gradwire
