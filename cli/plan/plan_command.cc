#include "cli/plan/plan_command.h"

#include <fstream>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "bench/operations.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/base/status_util.h"
#include "common/compress/codec.h"
#include "common/telemetry/phases.h"
#include "common/wire/layout.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"
#include "worker/options/traits.h"

namespace gradwire {

namespace {

template <typename T>
absl::Status Read(const nlohmann::json& json, const char* pointer, T* field) {
  const nlohmann::json::json_pointer at(pointer);
  const bool text = std::is_same_v<T, std::string>;
  if (!json.contains(at) || (text ? !json[at].is_string() : !json[at].is_number())) {
    return absl::InvalidArgumentError(absl::StrCat("the summary lacks ", pointer + 1));
  }
  *field = json[at].get<T>();
  return absl::OkStatus();
}

absl::StatusOr<MeasuredRun> ReadRank(const nlohmann::json& rank) {
  MeasuredRun run;
  int64_t accumulate = 1;
  double iterations = 0, forward = 0, backward = 0, optimizer = 0;
  absl::Status status = Read(rank, "/world_size", &run.workers);
  status.Update(Read(rank, "/sync", &run.sync));
  status.Update(Read(rank, "/backend", &run.backend));
  status.Update(Read(rank, "/wire", &run.wire));
  status.Update(Read(rank, "/compress", &run.compress));
  status.Update(Read(rank, "/model", &run.model));
  status.Update(Read(rank, "/batch_size", &run.batch_size));
  // Older summaries lack these, and those of runs that ended early lack the second.
  if (rank.contains("accumulate")) status.Update(Read(rank, "/accumulate", &accumulate));
  if (rank.contains("trained_parameters")) {
    status.Update(Read(rank, "/trained_parameters", &run.trained_parameters));
  }
  status.Update(Read(rank, "/iterations", &iterations));
  status.Update(Read(rank, "/iteration_seconds/p50", &run.iteration_seconds));
  status.Update(Read(rank, InfoOf(Phase::kExposedCommunication).pointer, &run.exposed_seconds));
  status.Update(Read(rank, InfoOf(Phase::kForward).pointer, &forward));
  status.Update(Read(rank, InfoOf(Phase::kBackward).pointer, &backward));
  status.Update(Read(rank, InfoOf(Phase::kOptimizer).pointer, &optimizer));
  status.Update(Read(rank, "/bytes_sent", &run.bytes_sent_per_step));
  if (!status.ok()) return status;
  run.batch_size *= accumulate;
  run.compute_seconds = forward + backward + optimizer;
  run.bytes_sent_per_step /= iterations;
  return run;
}

MeasuredRun MeanOf(const std::vector<MeasuredRun>& runs) {
  MeasuredRun mean = runs.front();
  mean.iteration_seconds = mean.exposed_seconds = 0;
  mean.compute_seconds = mean.bytes_sent_per_step = 0;
  const auto count = static_cast<double>(runs.size());
  for (const MeasuredRun& run : runs) {
    mean.iteration_seconds += run.iteration_seconds / count;
    mean.exposed_seconds += run.exposed_seconds / count;
    mean.compute_seconds += run.compute_seconds / count;
    mean.bytes_sent_per_step += run.bytes_sent_per_step / count;
  }
  return mean;
}

}  // namespace

absl::StatusOr<MeasuredRun> RunFromSummary(const nlohmann::json& summary) {
  const bool many = summary.is_object() && summary.contains("ranks");
  const nlohmann::json ranks = many ? summary["ranks"] : nlohmann::json::array({summary});
  if (ranks.empty()) return absl::InvalidArgumentError("the summary has no ranks");
  std::vector<MeasuredRun> runs;
  for (const nlohmann::json& rank : ranks) {
    absl::StatusOr<MeasuredRun> run = ReadRank(rank);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  return MeanOf(runs);
}

namespace {

using Json = nlohmann::ordered_json;

constexpr char kPlanProgram[] = "gradwire plan";
constexpr char kPlanDescription[] =
    "Predicts what a run will exchange and the minimum time of an iteration, for each back end.\n"
    "With the --summary of a finished run, it also shows what that run measured.";

void AddAll(PlanOptions* options, OptionParser* parser) {
  parser->Group("Run");
  parser->Add("workers", "N", "number of ranks", Integer(&options->workers, 1, 65536));
  parser->Add("per-host", "N", "workers on each host, with consecutive ranks",
              Integer(&options->per_host, 1, 65536));
  parser->Add("link-gbit", "X", "speed of every link in each direction, in Gbit/s",
              RealAbove(&options->link_gbit, 0));
  AddModelFlags(options, parser);
  parser->Add("batch-size", "B", "samples per rank and iteration",
              Integer(&options->batch_size, 1));
  parser->Add("sync", "NAME", DescribeChoices("when gradients are averaged:", SyncChoices()),
              SyncChoice(&options->sync));
  parser->Add(
      "bucket-cap-mb", "MB",
      "a bucket is full from this size in MiB on, the\nfirst one from 1; 0: one for each parameter",
      WithDefault(RealFrom(&options->bucket_cap_mb, 0), "depends on --sync"));
  parser->Add("wire", "TYPE", "element type on the wire", Choice(&options->wire, WireNames()));
  parser->Add("compress", "CODEC", DescribeCompressions(), Text(&options->compress));
  parser->Add("broadcast-buffers", "true|false", "send rank 0's buffers to all ranks",
              Switch(&options->broadcast_buffers));
  parser->Add("compute-seconds", "S", "measured time of an iteration without exchange",
              WithDefault(RealFrom(&options->compute_seconds, 0), "unknown, or the summary's"));
  parser->Group("Epoch");
  parser->Add("samples", "N", "training samples", WithDefault(Integer(&options->samples, 1), ""));
  parser->Add("dataset", "NAME", "read the number of samples from this data set",
              WithDefault(Choice(&options->dataset, NamesOf(DatasetChoices())), "none"));
  parser->Add("data-dir", "DIR", "folder with the data set's files", Text(&options->data_dir));
  parser->Group("Output");
  parser->Add("summary", "FILE", "summary of a finished run, to show beside the plan",
              Text(&options->summary));
  parser->Add("json", "FILE", "write all values as JSON", Text(&options->files.json));
  parser->Add("csv", "FILE", "write the table of back ends as CSV", Text(&options->files.csv));
  parser->Add("markdown", "FILE", "write the plan as Markdown",
              WithDefault(Text(&options->files.markdown), "stdout"));
  parser->Footer("Example: gradwire plan --workers 4 --link-gbit 1 --compute-seconds 0.37");
}

// Refuses a type on the wire with a codec, as a worker does.
absl::Status CheckCompression(const PlanOptions& options, const OptionParser& parser) {
  const absl::StatusOr<Compression> compression = ParseCompression(options.compress);
  const std::string& source = parser.source("compress").name;
  if (!compression.ok()) return Annotate(compression.status(), source);
  const Source& wire = parser.source("wire");
  if (!compression->is_on() || wire.layer == Layer::kDefault) return absl::OkStatus();
  return Unexpected(
      source,
      absl::StrCat("'", options.compress, "' with wire ", options.wire, " (", wire.name, ")"),
      "one of them");
}

absl::StatusOr<MeasuredRun> ReadRun(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();  // ends at a read error; an iterator would throw
  if (text.str().empty()) {
    return absl::NotFoundError(absl::StrCat("--summary: cannot read '", file, "'"));
  }
  const auto json = nlohmann::json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  absl::StatusOr<MeasuredRun> run = RunFromSummary(json);
  if (!run.ok()) return Annotate(run.status(), absl::StrCat("--summary: '", file, "'"));
  return run;
}

// The load of one byte, in each direction of the links.
Json LoadJson(const LinkLoad& load) {
  const Json host = load.host_bytes.has_value() ? Json(*load.host_bytes) : Json(nullptr);
  return {{"worker", load.worker_bytes}, {"host", host}, {"coordinator", load.coordinator_bytes}};
}

Json Backends(const PlanOptions& options) {
  Json backends = Json::array();
  const bool is_coded = ParseCompression(options.compress)->is_coded();
  for (const std::string& name : NamesOf(BackendChoices())) {
    if (is_coded && !TraitsOfBackend(name).codecs) continue;
    backends.push_back(
        {{"name", name},
         {"average", LoadJson(LoadOfAverage(name, options.workers, 1, options.per_host))},
         {"broadcast", LoadJson(LoadOfBroadcast(name, options.workers, 1, options.per_host))}});
  }
  return backends;
}

// `options.compress` is valid.
double ElementBytes(const PlanOptions& options) {
  const Compression compression = *ParseCompression(options.compress);
  if (!compression.is_coded()) return WireBytes(options.wire);
  return CodingOf(compression.dtype)->BytesPerElement(compression, options.workers);
}

Json MeasuredJson(const absl::optional<MeasuredRun>& run) {
  if (!run.has_value()) return nullptr;
  return {{"sync", run->sync},
          {"backend", run->backend},
          {"iteration_seconds", run->iteration_seconds},
          {"exposed_seconds", run->exposed_seconds},
          {"bytes_sent_per_step", run->bytes_sent_per_step},
          {"trained_parameters", run->trained_parameters}};
}

}  // namespace

Json PlanRequest(const PlanOptions& options, const absl::optional<MeasuredRun>& measured,
                 const std::string& command) {
  std::vector<std::string> layout = LayoutArguments(options);
  layout.insert(layout.begin(), PrivateFile("gradwire-layout"));
  return {{"command", command},
          {"layout_command", layout},
          {"model", options.model},
          {"workers", options.workers},
          {"per_host", options.per_host},
          {"interval", *IntervalOfSync(options.sync)},
          {"overlaps", TraitsOfSync(options.sync).overlaps},
          {"link_gbit", options.link_gbit},
          {"seconds_per_byte", LeastSeconds({1, 0}, options.link_gbit)},
          {"wire", options.compress == kNoCompression ? options.wire : options.compress},
          {"element_bytes", ElementBytes(options)},
          {"batch_size", options.batch_size},
          {"samples", options.samples > 0 ? Json(options.samples) : Json(nullptr)},
          {"compute_seconds",
           options.compute_seconds > 0 ? Json(options.compute_seconds) : Json(nullptr)},
          {"measured", MeasuredJson(measured)},
          {"backends", Backends(options)},
          {"files", ToJson(options.files)}};
}

namespace {

// Returns only on failure.
absl::Status Plan(Parsed<PlanOptions> parsed, const Environment& environment,
                  const std::string& command) {
  const absl::Status writable = CheckWritable(parsed.options.files);
  if (!writable.ok()) return writable;
  absl::optional<MeasuredRun> measured;
  if (!parsed.options.summary.empty()) {
    const absl::StatusOr<MeasuredRun> run = ReadRun(parsed.options.summary);
    if (!run.ok()) return run.status();
    const absl::Status adopted = AdoptRun(*run, &parsed);
    if (!adopted.ok()) return adopted;
    measured = *run;
  }
  return BecomeScript("cli/plan/plan.py", PlanRequest(parsed.options, measured, command),
                      environment);
}

template <typename T>
absl::Status AdoptOne(const std::string& name, const T& ran, const Sources& sources, T* option) {
  if (sources.at(name).layer == Layer::kDefault) *option = ran;
  if (*option == ran) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(sources.at(name).name, ": got '", *option,
                                                 "', but the run of --summary had '", ran, "'"));
}

}  // namespace

absl::StatusOr<Parsed<PlanOptions>> ParsePlanOptions(const std::vector<std::string>& args,
                                                     const Environment& environment) {
  Parsed<PlanOptions> parsed;
  OptionParser parser(kPlanProgram, kPlanDescription, {"plan"});
  AddAll(&parsed.options, &parser);
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (status.ok()) status = CheckCompression(parsed.options, parser);
  if (!status.ok()) return status;
  return parsed;
}

absl::Status AdoptRun(const MeasuredRun& run, Parsed<PlanOptions>* parsed) {
  PlanOptions& options = parsed->options;
  if (run.workers < 2) {
    return absl::InvalidArgumentError("--summary: that run had one worker, and exchanged nothing");
  }
  absl::Status status = AdoptOne("workers", run.workers, parsed->sources, &options.workers);
  status.Update(AdoptOne("sync", run.sync, parsed->sources, &options.sync));
  status.Update(AdoptOne("wire", run.wire, parsed->sources, &options.wire));
  status.Update(AdoptOne("compress", run.compress, parsed->sources, &options.compress));
  status.Update(AdoptOne("model", run.model, parsed->sources, &options.model));
  status.Update(AdoptOne("batch-size", run.batch_size, parsed->sources, &options.batch_size));
  if (options.compute_seconds == 0) options.compute_seconds = run.compute_seconds;
  return status;
}

std::vector<std::string> LayoutArguments(const PlanOptions& options) {
  std::vector<std::string> args = ToArguments(options);
  args.insert(args.end(), {"--sync", options.sync, "--broadcast-buffers",
                           options.broadcast_buffers ? "true" : "false"});
  // Low-rank factors have exchanges and a layout of their own.
  if (ParseCompression(options.compress)->has_factors()) {
    args.insert(args.end(), {"--compress", options.compress});
  }
  if (options.bucket_cap_mb >= 0) {
    args.insert(args.end(), {"--bucket-cap-mb", absl::StrCat(options.bucket_cap_mb)});
  }
  if (options.dataset.empty() || options.samples > 0) return args;
  args.insert(args.end(), {"--dataset", options.dataset});
  if (!options.data_dir.empty()) args.insert(args.end(), {"--data-dir", options.data_dir});
  return args;
}

int PlanCommand(const std::vector<std::string>& args, const Environment& environment) {
  const absl::StatusOr<Parsed<PlanOptions>> parsed = ParsePlanOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kPlanProgram, parsed)) return *exit_code;
  const absl::Status status = Plan(*parsed, environment, CommandLine(kPlanProgram, args));
  PrintUsageError(kPlanProgram, status.message());
  return ExitCode(status);
}

}  // namespace gradwire
