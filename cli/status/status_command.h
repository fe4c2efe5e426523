#ifndef GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_
#define GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"

namespace gradwire {

// The call is of status.py, which says what it takes. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also if there is no one address to connect to.
absl::StatusOr<Parsed<ScriptCall>> ParseStatusOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire status`: what a running coordinator says of its run. Returns the exit
// code of the program.
int StatusCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_
