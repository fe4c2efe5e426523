// gradwire-coordinator: the coordinator of one run.
#include <spdlog/spdlog.h>

#include <csignal>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/logging.h"
#include "common/base/output_file.h"
#include "common/base/signal_thread.h"
#include "common/base/status_util.h"
#include "common/options/security_options.h"
#include "common/rpc/channel.h"
#include "common/telemetry/trace_log.h"
#include "coordinator/run/coordinator.h"
#include "coordinator/run/coordinator_options.h"
#include "coordinator/run/separate_aggregator.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-coordinator";

const char* NameOf(int signal) { return signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM"; }

int Failed(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return ExitCode(status);
}

// Waits for the end of the run. A signal ends the run for all workers.
int Run(Coordinator& coordinator, const std::string& summary) {
  SignalThread signals([&coordinator](int signal) {
    if (signal == SIGUSR1) return coordinator.RequestCheckpoint();
    coordinator.Stop(absl::StrCat("the coordinator was stopped by ", NameOf(signal)));
  });
  const absl::Status end = coordinator.Wait();
  const int signal = signals.received();
  const absl::Status written =
      summary.empty() ? absl::OkStatus() : coordinator.WriteSummary(summary);
  coordinator.Linger();
  coordinator.WaitForViewer();
  if (end.ok() && !written.ok()) return Failed(written);
  return end.ok() || signal == 0 ? ExitCode(end) : 128 + signal;
}

int RunCoordinator(const CoordinatorOptions& options, OnSpan on_fold) {
  if (!options.aggregation_summary.empty()) {
    if (absl::Status writable = CheckWritable(options.aggregation_summary); !writable.ok()) {
      return Failed(writable);
    }
  }
  const auto coordinator = Coordinator::Start(options, std::move(on_fold));
  if (!coordinator.ok()) return Failed(coordinator.status());
  return Run(**coordinator, options.aggregation_summary);
}

// In the time line the coordinator follows the ranks; its clock is the reference.
int RunTraced(const CoordinatorOptions& options) {
  const auto log = TraceLog::Open(options.trace, options.world_size, "coordinator");
  if (!log.ok()) return Failed(log.status());
  const int exit_code =
      RunCoordinator(options, [&log](const TraceSpan& span) { (*log)->Add(span); });
  const absl::Status written = (*log)->Close(absl::ZeroDuration());
  return exit_code == kExitDone && !written.ok() ? Failed(written) : exit_code;
}

// Runs a separate aggregator until the end of the run. A signal ends the run for all.
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
  BlockUserSignal();
  LogToStderr();
  KeepFreedMemory(/*most_heaps=*/2);  // a checkpoint passes through the heaps of gRPC's threads
  RaiseDescriptorLimit();
  const absl::StatusOr<Parsed<CoordinatorOptions>> parsed =
      ParseCoordinatorOptions(Arguments(argc, argv), CurrentEnvironment());
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::Status instructions = UseInstructions(parsed->options.instructions);
  if (!instructions.ok()) return Failed(instructions);
  if (parsed->options.aggregate_only) return RunAggregator(parsed->options);
  return parsed->options.trace.empty() ? RunCoordinator(parsed->options, nullptr)
                                       : RunTraced(parsed->options);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
