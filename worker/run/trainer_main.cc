// gradwire-trainer: what gradwire-worker becomes once its options are judged.
#include <csignal>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/signal_thread.h"
#include "common/rpc/channel.h"
#include "worker/options/worker_option_parser.h"
#include "worker/run/worker.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-worker";

int Main(int argc, char** argv) {
  BlockStopSignals();
  LogToStderr();
  KeepFreedMemory();
  const absl::StatusOr<Parsed<WorkerOptions>> parsed =
      ParseWorkerOptions(Arguments(argc, argv), CurrentEnvironment());
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  Worker worker(parsed->options);
  SignalThread signals([&worker](int signal) {
    worker.Stop(absl::StrCat("stopped by ", signal == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM"),
                128 + signal);
  });
  return worker.Run();
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
