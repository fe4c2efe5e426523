#ifndef GRADWIRE_CLI_MODELS_MODELS_COMMAND_H_
#define GRADWIRE_CLI_MODELS_MODELS_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire models`: this process becomes gradwire-models, which has torch. Returns, with the
// exit code of the program, only if that cannot be started.
int ModelsCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_MODELS_MODELS_COMMAND_H_
