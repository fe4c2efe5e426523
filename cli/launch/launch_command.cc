#include "cli/launch/launch_options.h"
#include "cli/launch/launch_request.h"
#include "cli/terminal/commands.h"
#include "cli/terminal/script.h"
#include "common/base/status_util.h"

namespace gradwire {

int LaunchCommand(const std::vector<std::string>& args, const Environment& environment) {
  constexpr char kProgram[] = "gradwire launch";
  const absl::StatusOr<Parsed<LaunchOptions>> parsed = ParseLaunchOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const LaunchOptions& options = parsed->options;
  const absl::Status status =
      BecomeScript("cli/launch/launch.py", LaunchRequest(options),
                   MembersEnvironment(environment, options.config), options.worker_args);
  PrintUsageError(kProgram, status.message());
  return ExitCode(status);
}

}  // namespace gradwire
