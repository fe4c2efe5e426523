#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire launch`: a coordinator and workers on this machine, from start to
// end. Returns the exit code of the program.
int LaunchCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_COMMAND_H_
