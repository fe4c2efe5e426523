#include "cli/bench/bench_options.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/operations.h"
#include "common/base/plain_text.h"
#include "common/wire/layout.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr uint64_t kVgg11Bytes = 36924456;
constexpr int kMaxRanks = 256;

constexpr char kBenchFooter[] =
    "Without --hostfile and --hosts, all processes run on this machine. With --hostfile, rank I\n"
    "runs on host I of the file, over ssh. The coordinator runs on the next host or, if there is\n"
    "no next host, on the first. With --hosts auto or podman, the command makes a host for each\n"
    "rank on this machine and removes the hosts at its end. It needs root on Linux; the "
    "coordinator\n"
    "runs on the first host. With --hosts PROGRAM, rank I runs on host I, and the coordinator on\n"
    "host W (the number of workers). PROGRAM has the sub-commands 'up N RATE', 'run I CMD...',\n"
    "'addr I' and 'down'.\n"
    "Exit code: 0 measured, 1 failed or wrong values, 2 bad usage, 128+n by signal n.";

OptionValue Size(uint64_t* field) {
  OptionValue value;
  value.initial = absl::StrCat(*field);
  value.set = [field](const std::string& text) {
    const absl::StatusOr<uint64_t> bytes = ParseSize(text);
    if (bytes.ok()) *field = *bytes;
    return bytes.status();
  };
  return value;
}

OptionValue SizeList(std::vector<uint64_t>* field) {
  OptionValue value;
  value.set = [field](const std::string& text) {
    std::vector<uint64_t> sizes;
    for (const auto part : absl::StrSplit(text, ',')) {
      const absl::StatusOr<uint64_t> bytes = ParseSize(std::string(part));
      if (!bytes.ok()) return bytes.status();
      sizes.push_back(*bytes);
    }
    *field = std::move(sizes);
    return absl::OkStatus();
  };
  return value;
}

// Comma-separated names from `names`; repeated names count once.
OptionValue NameList(std::vector<std::string>* field, std::vector<std::string> names) {
  OptionValue value;
  value.initial = absl::StrJoin(*field, ",");
  value.set = [field, names = std::move(names)](const std::string& text) {
    std::vector<std::string> chosen;
    for (const auto part : absl::StrSplit(text, ',')) {
      const std::string name(part);
      if (std::count(names.begin(), names.end(), name) == 0) {
        return absl::InvalidArgumentError(absl::StrCat("got '", name, "', expected some of ",
                                                       absl::StrJoin(names, ", "),
                                                       DidYouMean(name, names, "")));
      }
      if (std::count(chosen.begin(), chosen.end(), name) == 0) chosen.push_back(name);
    }
    *field = std::move(chosen);
    return absl::OkStatus();
  };
  return value;
}

OptionValue Rate(std::string* field) {
  OptionValue value;
  value.initial = *field;
  value.set = [field](const std::string& text) {
    const auto gbit = GbitOfRate(text);
    if (gbit.ok()) *field = text;
    return gbit.status();
  };
  return value;
}

void AddWhere(BenchOptions* options, OptionParser* parser) {
  parser->Group("Hosts");
  parser->Add("workers", "N", "number of ranks", Integer(&options->workers, 1, kMaxRanks));
  AddHosts(options, parser);
}

void AddOutput(BenchOptions* options, OptionParser* parser) {
  parser->Group("Output");
  parser->Add("json", "FILE", "write all values as JSON", Text(&options->files.json));
  parser->Add("csv", "FILE", "write the table as CSV", Text(&options->files.csv));
  parser->Add("markdown", "FILE", "write the report as Markdown",
              WithDefault(Text(&options->files.markdown), "stdout"));
  parser->Footer(kBenchFooter);
}

// Whether bench/peers/models.py has the model that these arguments select. Its images have 32 x 32
// pixels; without --image-size, those of a worker are scaled up for a ResNet.
bool PeersHave(const std::vector<std::string>& model) {
  const std::vector<std::vector<std::string>> models = {
      {"--model", "vgg11"}, {"--model", "mlp"}, {"--model", "resnet18", "--image-size", "32"}};
  return std::find(models.begin(), models.end(), model) != models.end();
}

// InvalidArgument if the PyTorch scripts do not have the model.
absl::Status CheckPeersModel(const TrainingOptions& options) {
  const bool peers = std::any_of(
      options.setups.begin(), options.setups.end(),
      [](const std::string& name) { return SetupCalled(name).kind == SetupKind::kPeer; });
  const std::vector<std::string> own = ToArguments(options);
  if (!peers || PeersHave(own)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--peers supports only vgg11, mlp, and resnet18 with --image-size 32; got ",
                   absl::StrJoin(own, " ")));
}

std::string DescribeOperations() {
  return absl::StrCat(
      "collectives to measure\n", absl::StrJoin(OperationNames(), ", "),
      "\n(ring and tree have all of them, other back ends all-reduce and broadcast)");
}

// Fills in `backends` if none were given. InvalidArgument if a given one lacks an operation.
absl::Status CompleteBackends(CollectivesOptions* options) {
  const std::vector<std::string> given = options->backends;
  options->backends_given = !given.empty();
  options->backends.clear();
  for (const std::string& backend : given.empty() ? NamesOf(BackendChoices()) : given) {
    const auto lacked = std::find_if(options->ops.begin(), options->ops.end(), [&](const auto& op) {
      return !Has(backend, OperationCalled(op));
    });
    if (lacked == options->ops.end()) {
      options->backends.push_back(backend);
    } else if (!given.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--ops: got '", *lacked, "', but back end ",
                                                     backend, " (--backends) does not have it"));
    }
  }
  return absl::OkStatus();
}

template <typename Options>
absl::Status Finish(const std::vector<std::string>& args, const Environment& environment,
                    OptionParser* parser, Parsed<Options>* parsed) {
  absl::Status status = parser->Parse(args, environment, {}, parsed);
  if (!status.ok() || !parsed->print.empty()) return status;
  return CheckHosts(*parser, &parsed->options.bench);
}

}  // namespace

void AddHosts(BenchOptions* options, OptionParser* parser) {
  parser->Add("hostfile", "FILE", "file with one ssh host per line",
              WithDefault(Text(&options->hostfile), "this machine"));
  parser->Add("hosts", "auto|podman|PROGRAM",
              "hosts made here (auto: network namespaces, podman: containers) or by PROGRAM",
              WithDefault(Text(&options->hosts), "this machine"));
  parser->Add("rate", "RATE",
              "rate of the links of --hosts, such as 100mbit or 2.5gbit; none: no limit",
              WithDefault(Rate(&options->rate), "1gbit with --hosts auto or podman, else none"));
  parser->Add("link-gbit", "X", "speed of the links in Gbit/s, to compute minimum times",
              WithDefault(RealAbove(&options->link_gbit, 0), "same as --rate"));
  parser->Add("port", "N", "port of the coordinator on its host; PyTorch uses the next one",
              Integer(&options->port, 1, 65534));
  parser->Add("peers", "true|false", "also measure PyTorch + Gloo, in turn with Gradwire",
              Switch(&options->peers));
  parser->Add("timeout-seconds", "S", "time limit for each start of all ranks",
              RealAbove(&options->timeout_seconds, 0));
}

absl::Status CheckHosts(const OptionParser& parser, BenchOptions* options) {
  const absl::StatusOr<std::string> where = parser.InForce("hostfile", "hosts");
  if (!where.ok()) return where.status();
  (*where == "hosts" ? options->hostfile : options->hosts).clear();
  const bool made_here = options->hosts == "auto" || options->hosts == "podman";
  if (made_here && parser.source("rate").layer == Layer::kDefault) options->rate = "1gbit";
  if (options->hosts.empty() && options->rate != "none") {
    return absl::InvalidArgumentError(
        absl::StrCat(parser.source("rate").name, ": only the links of --hosts can have a rate"));
  }
  return absl::OkStatus();
}

absl::optional<double> BenchOptions::LinkGbit() const {
  if (link_gbit > 0) return link_gbit;
  return GbitOfRate(rate).value();
}

absl::StatusOr<absl::optional<double>> GbitOfRate(const std::string& rate) {
  if (rate == "none") return absl::nullopt;
  const std::pair<const char*, double> units[] = {
      {"gbit", 1}, {"mbit", 1e-3}, {"kbit", 1e-6}, {"bit", 1e-9}};
  for (const auto& [unit, gbit] : units) {
    absl::string_view number = rate;
    double value = 0;
    if (absl::ConsumeSuffix(&number, unit) && absl::SimpleAtod(number, &value) && value > 0) {
      return value * gbit;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got '", rate, "', expected a rate such as 1gbit or 500mbit, or none"));
}

absl::StatusOr<uint64_t> ParseSize(const std::string& text) {
  absl::string_view number = text;
  uint64_t unit = 1, value = 0;
  if (absl::ConsumeSuffix(&number, "K")) unit = 1 << 10;
  if (absl::ConsumeSuffix(&number, "M")) unit = 1 << 20;
  if (absl::ConsumeSuffix(&number, "G")) unit = 1 << 30;
  const bool parsed = absl::SimpleAtoi(number, &value);
  if (!parsed || value == 0 || value > (uint64_t{1} << 40) / unit || value * unit % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "got '", text, "', expected bytes that are a multiple of 4, such as 4, 64K or 256M"));
  }
  return value * unit;
}

std::vector<uint64_t> CollectivesOptions::Sizes() const {
  std::set<uint64_t> all(sizes.begin(), sizes.end());
  if (all.empty()) {
    for (uint64_t bytes = min_bytes; bytes <= max_bytes; bytes *= factor) all.insert(bytes);
    if (min_bytes <= kVgg11Bytes && kVgg11Bytes <= max_bytes) all.insert(kVgg11Bytes);
  }
  return {all.begin(), all.end()};
}

absl::StatusOr<Parsed<CollectivesOptions>> ParseCollectivesOptions(
    const std::vector<std::string>& args, const Environment& environment) {
  Parsed<CollectivesOptions> parsed;
  CollectivesOptions& options = parsed.options;
  OptionParser parser(
      "gradwire bench collectives",
      "Measures how long each back end takes for a collective on one bucket over all ranks, and\n"
      "checks the results.",
      {"bench"});
  parser.Group("Measurement");
  parser.Add("min-bytes", "N", "smallest bucket, in bytes", Size(&options.min_bytes));
  parser.Add("max-bytes", "N", "largest bucket, in bytes", Size(&options.max_bytes));
  parser.Add("factor", "N", "ratio of each size to the one before",
             Integer(&options.factor, 2, 1 << 20));
  parser.Add("sizes", "N,N,...", "sizes instead of a range (K, M, G: powers of 1024)",
             WithDefault(SizeList(&options.sizes), "the range and VGG-11's 36924456"));
  parser.Add("ops", "NAME,...", DescribeOperations(), NameList(&options.ops, OperationNames()));
  parser.Add("backends", "NAME,...", "back ends to measure",
             WithDefault(NameList(&options.backends, NamesOf(BackendChoices())),
                         "all that have the --ops"));
  parser.Add("wire", "TYPE,...", "element types on the wire",
             NameList(&options.wires, WireNames()));
  parser.Add("warmup", "N", "iterations before the measured ones", Integer(&options.warmup, 1));
  parser.Add("iterations", "N", "measured iterations", Integer(&options.iterations, 1));
  parser.Add("seconds-per-size", "S",
             "time limit for the measured iterations; 0: no limit\n"
             "(fewer iterations run if they take longer; the warm-up may take a quarter)",
             RealFrom(&options.seconds_per_size, 0));
  parser.Add("tls", "true|false",
             "also measure encrypted connections, on this machine only\n"
             "(makes temporary certificates)",
             Switch(&options.tls));
  AddWhere(&options.bench, &parser);
  AddOutput(&options.bench, &parser);
  const absl::Status status = Finish(args, environment, &parser, &parsed);
  if (!status.ok()) return status;
  if (options.tls && !(options.bench.hosts.empty() && options.bench.hostfile.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(parser.source("tls").name, ": got it with hosts, expected this machine only"));
  }
  if (parsed.print.empty() && options.Sizes().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--min-bytes: got '", options.min_bytes,
                                                   "', expected at most --max-bytes, ",
                                                   options.max_bytes));
  }
  if (parsed.print.empty()) {
    const absl::Status complete = CompleteBackends(&options);
    if (!complete.ok()) return complete;
  }
  return parsed;
}

absl::StatusOr<Parsed<TrainingOptions>> ParseTrainingOptions(const std::vector<std::string>& args,
                                                             const Environment& environment) {
  Parsed<TrainingOptions> parsed;
  TrainingOptions& options = parsed.options;
  OptionParser parser(
      "gradwire bench training",
      "Trains with each setup in turn, for several rounds on the same hosts, and compares the\n"
      "iteration times.",
      {"bench"});
  parser.Group("Measurement");
  parser.Add(
      "setups", "NAME,...", DescribeSetups(),
      WithDefault(NameList(&options.setups, SetupNames()), "all; those of PyTorch with --peers"));
  parser.Add("rounds", "N", "number of runs of each setup", Integer(&options.rounds, 1));
  parser.Add("iterations", "N", "iterations of each run; the first is not counted",
             Integer(&options.iterations, 2));
  parser.Add("batch-size", "B", "samples per rank and iteration", Integer(&options.batch_size, 1));
  AddComputeSeconds(&options.compute_seconds, &parser);
  AddModelFlags(&options, &parser);
  parser.Add("dataset", "NAME", DescribeChoices("training data:", DatasetChoices()),
             Choice(&options.dataset, NamesOf(DatasetChoices())));
  parser.Add("data-dir", "DIR", "folder with the data set's files", Text(&options.data_dir));
  AddWhere(&options.bench, &parser);
  AddOutput(&options.bench, &parser);
  const absl::Status status = Finish(args, environment, &parser, &parsed);
  if (!status.ok()) return status;
  if (parsed.print.empty()) {
    absl::Status fits = CompleteSetups(options.bench.peers, options.dataset, &options.setups);
    if (fits.ok()) fits = CheckPeersModel(options);
    if (!fits.ok()) return fits;
  }
  return parsed;
}

}  // namespace gradwire
