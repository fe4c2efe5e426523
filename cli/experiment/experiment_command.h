#ifndef GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_
#define GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// The script gets what cli/bench/bench_request.h says, with
//
//   words     NAME, or what stands in its place
//   scale, data_dir, out ("": named after the experiment), again
//   threads   compute threads of each rank; 0: as many as there are
//   link      {"rate", "gbit" (null: none)} of each rate that links shall have in turn
//   target    test accuracy, 0 to 1; 0: the experiment's own
//
// Errors as OptionParser::Parse and CheckHosts.
absl::StatusOr<Parsed<ScriptCall>> ParseExperimentOptions(const std::vector<std::string>& args,
                                                          const Environment& environment);

// `gradwire experiment`: reads the options, then becomes the script that runs, reports and judges.
// Returns, with the exit code of the program, only if there is nothing to run.
int ExperimentCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_
