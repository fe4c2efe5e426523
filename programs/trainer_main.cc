// gradwire-trainer: gradwire-worker becomes this program once it has checked its options.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/logging.h"
#include "common/base/signal_thread.h"
#include "common/base/status_util.h"
#include "common/options/security_options.h"
#include "common/rpc/channel.h"
#include "coordinator/run/hosted_coordinator.h"
#include "worker/options/worker_option_parser.h"
#include "worker/run/worker.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-worker";

int Failed(const absl::Status& status) {
  spdlog::error("{}", std::string(status.message()));
  return ExitCode(status);
}

// Hosts the coordinator for --host-coordinator; null if another process must do it.
absl::StatusOr<std::unique_ptr<HostedCoordinator>> Host(const WorkerOptions& options) {
  const auto& ranks = options.ranks;
  if (!options.host_coordinator || std::find(ranks.begin(), ranks.end(), Rank(0)) == ranks.end()) {
    return nullptr;
  }
  return HostedCoordinator::StartUnlessServed(
      {options.coordinator, options.world_size, options.coordinator_metrics, options.security},
      CurrentEnvironment());
}

std::string ReasonOf(int signal) {
  return absl::StrCat("stopped by ", signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM");
}

int Train(const WorkerOptions& options) {
  Worker worker(options);
  SignalThread signals([&worker](int signal) { worker.Stop(ReasonOf(signal), 128 + signal); });
  return worker.Run();
}

// Waits, because the other workers still need the coordinator, unless this worker failed before the
// run began: the run cannot begin without its ranks.
int AwaitOthers(HostedCoordinator* hosted, int exit_code) {
  SignalThread signals([hosted](int signal) { hosted->Stop(ReasonOf(signal)); });
  if (hosted->IsWaiting()) {
    hosted->Stop("rank 0, which hosts the coordinator, ended before the run began");
  }
  hosted->AwaitEnd();
  return signals.received() == 0 ? exit_code : 128 + signals.received();
}

int Main(int argc, char** argv) {
  BlockStopSignals();
  LogToStderr();
  KeepFreedMemory(/*most_heaps=*/1);  // threads of --devices compute
  RaiseDescriptorLimit();
  const absl::StatusOr<Parsed<WorkerOptions>> parsed =
      ParseWorkerOptions(Arguments(argc, argv), CurrentEnvironment());
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  WorkerOptions options = parsed->options;
  const absl::Status instructions = UseInstructions(options.instructions);
  if (!instructions.ok()) return Failed(instructions);
  const auto hosted = Host(options);
  if (!hosted.ok()) return Failed(hosted.status());
  if (*hosted != nullptr) options.coordinator = (*hosted)->address();
  const int exit_code = Train(options);
  return *hosted == nullptr ? exit_code : AwaitOthers(hosted->get(), exit_code);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) {
  const int exit_code = gradwire::Main(argc, argv);
#ifdef GRADWIRE_SANITIZED
  return exit_code;  // AddressSanitizer then looks for leaks
#else
  // The workers and their threads have ended. The destructors of torch's static objects have
  // nothing to do, but take 0.1 s.
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
#endif
}
