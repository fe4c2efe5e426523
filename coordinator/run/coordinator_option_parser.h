#ifndef GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTION_PARSER_H_
#define GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTION_PARSER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "coordinator/run/coordinator_options.h"

namespace gradwire {

// Adds a coordinator's options to `parser`, all but --world-size: it is the
// number of workers to `gradwire launch`, which takes the other ones as they are.
void AddCoordinatorOptions(CoordinatorOptions* options, OptionParser* parser);

// That the coordinator may serve where, and to whom, it is told. InvalidArgument if pages are to
// ask for a token and none is given; and as CheckReach.
absl::Status CheckServing(const CoordinatorOptions& options);

// Reads a coordinator's options from all layers (see OptionParser; a launcher's
// environment says nothing to it). Errors as OptionParser::Parse. `metrics` is
// "off" if they are not served.
absl::StatusOr<Parsed<CoordinatorOptions>> ParseCoordinatorOptions(
    const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_COORDINATOR_OPTION_PARSER_H_
