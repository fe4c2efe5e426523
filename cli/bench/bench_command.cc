#include <iostream>
#include <utility>

#include "cli/bench/bench_options.h"
#include "cli/bench/bench_request.h"
#include "cli/terminal/commands.h"
#include "cli/terminal/script.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr char kBenchProgram[] = "gradwire bench";
constexpr char kBenchHelp[] =
    "Usage: gradwire bench MEASUREMENT [OPTIONS]\n\n"
    "Measurements:\n"
    "  collectives  time collectives on buckets of many sizes, with each back end\n"
    "  training     time the iterations of training runs, with each setup\n\n"
    "'gradwire bench MEASUREMENT --help' shows its options.\n";

std::vector<std::string> Measurements() { return {"collectives", "training"}; }

int Fail(const absl::Status& status) {
  PrintUsageError(kBenchProgram, status.message());
  return ExitCode(status);
}

template <typename Options>
using MakeRequest = nlohmann::ordered_json (*)(const Options& options, const std::string& command);

// Replaces this process with `script`. Returns the exit code if it cannot.
template <typename Options>
int BenchWith(const absl::StatusOr<Parsed<Options>>& parsed, const std::vector<std::string>& args,
              const Environment& environment, MakeRequest<Options> request,
              const std::string& script) {
  if (const absl::optional<int> exit_code = EarlyExit(kBenchProgram, parsed)) return *exit_code;
  const absl::Status writable = CheckWritable(parsed->options.bench.files);
  if (!writable.ok()) return Fail(writable);
  const std::string command = CommandLine(kBenchProgram, args);
  return Fail(BecomeScript(script, request(parsed->options, command), environment));
}

}  // namespace

int BenchCommand(const std::vector<std::string>& args, const Environment& environment) {
  if (args.empty()) return NoSuchCommand(kBenchProgram, "measurement", Measurements(), args);
  if (const auto exit_code = HelpOrVersion(kBenchProgram, kBenchHelp, args)) return *exit_code;
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "collectives") {
    return BenchWith<CollectivesOptions>(ParseCollectivesOptions(rest, environment), args,
                                         environment, CollectivesRequest,
                                         "cli/bench/bench_collectives.py");
  }
  if (args[0] == "training") {
    return BenchWith<TrainingOptions>(ParseTrainingOptions(rest, environment), args, environment,
                                      TrainingRequest, "cli/bench/bench_training.py");
  }
  return NoSuchCommand(kBenchProgram, "measurement", Measurements(), args);
}

}  // namespace gradwire
