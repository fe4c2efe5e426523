#include "coordinator/run/coordinator_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/output_file.h"
#include "common/options/security_options.h"
#include "common/rpc/reach.h"

namespace gradwire {

namespace {

constexpr char kGroup[] = "Coordinator";
constexpr char kDescription[] =
    "Connects the workers of one run, averages their gradients for the back end 'coordinator',\n"
    "and detects lost workers.";

constexpr char kFooter[] =
    "Each option can also be given as GRADWIRE_NAME in the environment (GRADWIRE_WORLD_SIZE) or\n"
    "as a key of the --config file (world-size = 4) in its section [coordinator].\n"
    "Precedence: flag > GRADWIRE_NAME > file > default.";

void AddAggregatorOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group("Separate aggregator");
  parser->Add("aggregate-only", "true|false",
              "be a separate aggregator in another coordinator's run",
              Switch(&options->aggregate_only));
  parser->Add("coordinator", "HOST:PORT", "with --aggregate-only: address of that coordinator",
              ConnectAddress(&options->coordinator));
  parser->Add("advertise", "HOST",
              "with --aggregate-only: host name or address of this aggregator for workers",
              WithDefault(Text(&options->advertise), "address used to reach the coordinator"));
  parser->Add("connect-timeout-seconds", "SECONDS",
              "with --aggregate-only: longest wait for the coordinator to answer",
              RealAbove(&options->connect_timeout_seconds, 0));
}

// "auto", "never" or the step of a checkpoint.
OptionValue ResumeFrom(std::string* field) {
  OptionValue value = Text(field);
  value.set = [field](const std::string& text) {
    uint64_t step = 0;
    if (text != kResumeAuto && text != kResumeNever &&
        (!absl::SimpleAtoi(text, &step) || step == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("got '", text, "', expected auto, never or the step of a checkpoint"));
    }
    *field = text;
    return absl::OkStatus();
  };
  return value;
}

void AddCheckpointOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group("Checkpoints");
  parser->Add("run-dir", "DIR", "folder for the checkpoints of this run, on the coordinator's host",
              WithDefault(Text(&options->run_dir), "no checkpoints"));
  parser->Add("checkpoint-every", "STEPS",
              "with --run-dir: steps from one checkpoint to the next;\n"
              "0: only at the end and on SIGUSR1",
              Integer(&options->checkpoint_every, 0));
  parser->Add("keep-checkpoints", "N",
              "with --run-dir: number of checkpoints to keep; older ones are deleted",
              Integer(&options->keep_checkpoints, 1, 1000000));
  parser->Add("resume", "auto|never|STEP",
              "with --run-dir: continue from its newest sound checkpoint, from none or from a step",
              ResumeFrom(&options->resume));
}

}  // namespace

void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser) {
  parser->Group(kGroup);
  parser->Add("listen", "HOST:PORT",
              "address for workers; port 0 selects a free port and prints it",
              ListenAddress(&options->listen));
  parser->Add("metrics", "HOST:PORT", "address of metrics, live page and /healthz; or off",
              ListenAddressOrOff(&options->metrics));
  parser->Add(
      "http-names", "NAMES",
      "comma-separated host names accepted by the pages, besides IP addresses and local names",
      Text(&options->http_names));
  parser->Add("http-token", "true|false",
              "pages require the token of --token-file, as a password or a bearer token",
              Switch(&options->http_token));
  parser->Add("port-file", "FILE", "file for the bound addresses", Text(&options->port_file));
  parser->Add("lease-seconds", "SECONDS",
              "longest silence after which a worker is lost; shorter if its heartbeats are regular",
              RealAbove(&options->lease_seconds, 0));
  parser->Add("min-lease-seconds", "SECONDS",
              "shortest silence after which a worker is lost; capped at --lease-seconds",
              RealAbove(&options->min_lease_seconds, 0));
  parser->Add(
      "on-loss", "NAME",
      "when a worker is lost: recover (others carry its ranks, with the same result) or stop",
      Choice(&options->on_loss, {kRecover, kStop}));
  parser->Add(
      "min-workers", "N",
      "minimum number of workers; with fewer, the run pauses for --pause-timeout, then ends",
      Integer(&options->min_workers, 1, 65535));
  parser->Add("pause-timeout", "SECONDS",
              "time that a paused run waits for silent workers; 0: it ends at once",
              RealFrom(&options->pause_timeout_seconds, 0));
  parser->Add("rendezvous-timeout-seconds", "SECONDS", "longest wait for all workers to join",
              RealAbove(&options->rendezvous_timeout_seconds, 0));
  parser->Add("linger-seconds", "SECONDS",
              "time to serve metrics and pages after the end of the run",
              RealFrom(&options->linger_seconds, 0));
  parser->Add("chunk-kib", "KiB", "longest piece of Gather and Scatter",
              Integer(&options->chunk_kib, 1, 4096));
  AddCheckpointOptions(options, parser);
  parser->Group(kGroup);
  AddInstructionsOption(&options->instructions, parser);
  AddSecurityOptions(&options->security, parser);
  parser->Group(kGroup);
}

absl::Status CheckServing(const CoordinatorOptions& options) {
  absl::Status reach = CheckReach("--listen", options.listen, options.security);
  if (reach.ok()) reach = CheckReach("--metrics", options.metrics, options.security);
  if (!reach.ok()) return reach;
  if (!options.http_token || !options.security.token_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--http-token: got no token, expected --token-file with it");
}

absl::Status CheckKeeping(const CoordinatorOptions& options, const Sources& sources) {
  if (!options.run_dir.empty()) return absl::OkStatus();
  for (const char* name : {"checkpoint-every", "keep-checkpoints", "resume"}) {
    const Source& source = sources.at(name);
    if (source.layer == Layer::kDefault) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        source.name, ": got no folder for checkpoints, expected --run-dir DIR with it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment) {
  Parsed<CoordinatorOptions> parsed;
  OptionParser parser("gradwire-coordinator", kDescription, {"coordinator"});
  parser.Footer(kFooter);
  AddCoordinatorOptions(&parsed.options, &parser);
  parser.Add("aggregators", "N",
             "separate aggregators for back end sharded; 0: the workers aggregate",
             Integer(&parsed.options.aggregators, 0, 65535));
  parser.Add("trace", "FILE",
             "time line of the coordinator's sums, in Chrome's trace format (for Perfetto)",
             Text(&parsed.options.trace));
  parser.Add("aggregation-summary", "FILE", "file for the coordinator's mean iteration, as JSON",
             Text(&parsed.options.aggregation_summary));
  parser.Add("world-size", "N", "number of ranks", Integer(&parsed.options.world_size, 1, 65535));
  parser.Add("workers", "N", "processes that carry the ranks, one or more each",
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
  if (absl::Status keeping = CheckKeeping(parsed.options, parsed.sources); !keeping.ok()) {
    return keeping;
  }
  if (parsed.options.aggregate_only && !parsed.options.run_dir.empty()) {
    return absl::InvalidArgumentError("--run-dir: cannot be used with --aggregate-only");
  }
  if (parsed.options.aggregate_only && !parsed.options.trace.empty()) {
    return absl::InvalidArgumentError("--trace: cannot be used with --aggregate-only");
  }
  if (parsed.options.aggregate_only && !parsed.options.aggregation_summary.empty()) {
    return absl::InvalidArgumentError(
        "--aggregation-summary: cannot be used with --aggregate-only");
  }
  return parsed;
}

absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics) {
  std::string text = absl::StrCat("grpc=", grpc, "\n");
  if (!metrics.empty()) absl::StrAppend(&text, "metrics=", metrics, "\n");
  // Renamed into place, so that no process reads a partial file.
  const absl::Status written = ReplaceFile(path, text);
  if (written.ok()) return written;
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot write port file ", absl::StripPrefix(written.message(), "cannot write ")));
}

}  // namespace gradwire
