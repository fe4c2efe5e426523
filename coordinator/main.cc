// gradwire-coordinator: the middle of one run.
#include <spdlog/spdlog.h>

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/channel.h"
#include "common/logging.h"
#include "common/signal_thread.h"
#include "common/status_util.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_option_parser.h"
#include "coordinator/separate_aggregator.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-coordinator";

const char* NameOf(int signal) { return signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM"; }

int Failed(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return ExitCode(status);
}

// Waits for the end of the run. A signal ends it for all workers.
int Run(Coordinator& coordinator) {
  SignalThread signals([&coordinator](int signal) {
    coordinator.Stop(absl::StrCat("the coordinator was stopped by ", NameOf(signal)));
  });
  const absl::Status end = coordinator.Wait();
  coordinator.WaitForViewer();
  if (end.ok() || signals.received() == 0) return ExitCode(end);
  return 128 + signals.received();
}

// The same for a separate aggregator.
int RunAggregator(const CoordinatorOptions& options) {
  auto aggregator = SeparateAggregator::Start(options);
  if (!aggregator.ok()) return Failed(aggregator.status());
  SignalThread signals([&aggregator](int signal) {
    (*aggregator)->Stop(absl::StrCat("the aggregator was stopped by ", NameOf(signal)));
  });
  const absl::Status end = (*aggregator)->Run();
  if (end.ok()) return kExitDone;
  const int exit_code = Failed(end);
  return signals.received() == 0 ? exit_code : 128 + signals.received();
}

int Main(int argc, char** argv) {
  BlockStopSignals();
  LogToStderr();
  KeepFreedMemory();
  const absl::StatusOr<Parsed<CoordinatorOptions>> parsed =
      ParseCoordinatorOptions(Arguments(argc, argv), CurrentEnvironment());
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  if (parsed->options.aggregate_only) return RunAggregator(parsed->options);
  const auto coordinator = Coordinator::Start(parsed->options);
  if (!coordinator.ok()) return Failed(coordinator.status());
  return Run(**coordinator);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
