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

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-coordinator";

// Waits for the end of the run. A signal ends it for all workers.
int Run(Coordinator& coordinator) {
  SignalThread signals([&coordinator](int signal) {
    coordinator.Stop(absl::StrCat("the coordinator was stopped by ",
                                  signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM"));
  });
  const absl::Status end = coordinator.Wait();
  if (end.ok() || signals.received() == 0) return ExitCode(end);
  return 128 + signals.received();
}

int Main(int argc, char** argv) {
  BlockStopSignals();
  LogToStderr();
  KeepFreedMemory();
  const absl::StatusOr<Parsed<CoordinatorOptions>> parsed =
      ParseCoordinatorOptions(Arguments(argc, argv), CurrentEnvironment());
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const auto coordinator = Coordinator::Start(parsed->options);
  if (!coordinator.ok()) {
    spdlog::error("{}", std::string(coordinator.status().message()));
    return ExitCode(coordinator.status());
  }
  return Run(**coordinator);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
