#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire launch`: reads the options, then becomes the script that runs a coordinator and workers
// on this machine. Returns, with the exit code of the program, only if nothing is to be started.
int LaunchCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_
