#include "cli/bench/bench_command.h"

#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/machine.h"
#include "cli/bench/bench_collectives.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_runner.h"
#include "cli/bench/bench_training.h"
#include "common/base/logging.h"
#include "common/base/signal_thread.h"
#include "common/base/status_util.h"
#include "common/options/suggest.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire bench";
constexpr char kHelp[] =
    "Usage: gradwire bench MEASUREMENT [OPTIONS]\n\n"
    "Measurements:\n"
    "  collectives  averages of buckets of many sizes, with each back end\n"
    "  training     iterations of whole training runs, with each set-up\n\n"
    "'gradwire bench MEASUREMENT --help' shows its options.\n";

nlohmann::ordered_json DescribeEnvironment(const BenchOptions& options, const BenchRunner& runner) {
  nlohmann::ordered_json environment = DescribeMachine();
  if (!runner.torch_version().empty()) environment["pytorch"] = runner.torch_version();
  environment["hosts"] =
      options.hosts.empty() ? "all processes on this machine" : "a host for each process";
  environment["link"] = options.LinkGbit().has_value()
                            ? absl::StrCat(*options.LinkGbit(), " Gbit/s")
                            : std::string("unshaped");
  return environment;
}

int Fail(const absl::Status& status) {
  PrintUsageError(kProgram, status.message());
  return ExitCode(status);
}

template <typename Options>
using Measure = absl::Status (*)(const Options& options, BenchRunner* runner, Report* report);

// Prepares hosts, measures, and reports what was measured even if it failed.
template <typename Options>
absl::Status Run(const Options& options, const Environment& environment,
                 const std::function<bool()>& stopped, Measure<Options> measure, Report* report) {
  BenchRunner runner(options.bench, environment, stopped);
  absl::Status status = runner.Prepare();
  if (!status.ok()) return status;
  report->environment = DescribeEnvironment(options.bench, runner);
  status = measure(options, &runner, report);
  if (report->parts.empty() || report->parts.front().rows.empty()) return status;
  const absl::Status written = WriteReport(*report, options.bench.files);
  return status.ok() ? written : status;
}

template <typename Options>
int BenchWith(const absl::StatusOr<Parsed<Options>>& parsed, const std::vector<std::string>& args,
              const Environment& environment, Measure<Options> measure) {
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::Status writable = CheckWritable(parsed->options.bench.files);
  if (!writable.ok()) return Fail(writable);
  BlockStopSignals();
  SignalThread signals([](int) {});
  Report report;
  report.command = absl::StrCat("gradwire bench ", absl::StrJoin(args, " "));
  const absl::Status status = Run(
      parsed->options, environment, [&] { return signals.received() != 0; }, measure, &report);
  if (signals.received() != 0) return 128 + signals.received();
  if (status.ok()) return kExitDone;
  std::cerr << kProgram << ": " << status.message() << std::endl;
  return ExitCode(status);
}

int Unknown(const std::string& word) {
  const bool option = absl::StartsWith(word, "-");
  PrintUsageError(kProgram, absl::StrCat(option ? "unknown option " : "unknown measurement ", word,
                                         option ? "; expected collectives or training" : "",
                                         DidYouMean(word, {"collectives", "training"}, "")));
  return kExitUsage;
}

}  // namespace

int BenchCommand(const std::vector<std::string>& args, const Environment& environment) {
  LogToStderr();
  if (args.empty()) {
    std::cerr << kHelp;
    return kExitUsage;
  }
  if (args[0] == "--help" || args[0] == "-h") {
    std::cout << kHelp << std::flush;
    return kExitDone;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "collectives") {
    return BenchWith<CollectivesOptions>(ParseCollectivesOptions(rest, environment), args,
                                         environment, MeasureCollectives);
  }
  if (args[0] == "training") {
    return BenchWith<TrainingOptions>(ParseTrainingOptions(rest, environment), args, environment,
                                      MeasureTraining);
  }
  return Unknown(args[0]);
}

}  // namespace gradwire
