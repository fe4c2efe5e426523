#ifndef GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_
#define GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire trace --out FILE FILE...`: what `gradwire launch --trace` does at its end,
// for processes that were started by hand. Returns the exit code.
int TraceCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TRACE_TRACE_COMMAND_H_
