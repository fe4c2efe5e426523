// gradwire-worker: checks its options within milliseconds, then becomes gradwire-trainer, which
// loads libtorch and trains.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "common/base/environment.h"
#include "common/base/status_util.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-worker";

int Main(int argc, char** argv) {
  const Environment environment = CurrentEnvironment();
  absl::StatusOr<Parsed<WorkerOptions>> parsed =
      ParseWorkerOptions(Arguments(argc, argv), environment);
  // The trainer reads the same options and prints the warnings.
  if (parsed.ok()) parsed->warnings.clear();
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::Status started = CheckMpirun(parsed->options.backend, environment);
  if (!started.ok()) {
    PrintUsageError(kProgram, started.message());
    return ExitCode(started);
  }
  const std::string trainer = PrivateFile("gradwire-trainer");
  // Memory comes in pages of 2 MB where the kernel has them (THP by madvise): without, the first
  // touch of parameters, gradients and states costs more than a small run trains. Only the start of
  // a program can choose so. A user's own tunables stand.
  setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", /*overwrite=*/0);
  execv(trainer.c_str(), argv);
  std::cerr << kProgram << ": cannot start " << trainer << ": " << std::strerror(errno)
            << "; it is built and installed together with " << kProgram << std::endl;
  return kExitFailed;
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
