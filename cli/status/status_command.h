#ifndef GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_
#define GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// What `gradwire status` was told.
struct StatusOptions {
  std::string coordinator = "127.0.0.1:9400";  // its --metrics
  bool watch = false;
  bool json = false;
};

// InvalidArgument and NotFound as OptionParser::Parse.
absl::StatusOr<Parsed<StatusOptions>> ParseStatusOptions(const std::vector<std::string>& args,
                                                         const Environment& environment);

// `gradwire status`: what a running coordinator says of its run. Returns the exit
// code of the program.
int StatusCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_STATUS_STATUS_COMMAND_H_
