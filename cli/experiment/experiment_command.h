#ifndef GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_
#define GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// The script gets the fields of BenchRequest (cli/bench/bench_request.h), and
//
//   words     the operands as given; NAME, list or claims [NAME] is expected
//   scale, data_dir, out ("": named after the experiment), again, json
//   threads   compute threads of each rank; 0: as many as possible
//   link      {"rate", "gbit" (null: no limit)} for each rate to measure
//   target    test accuracy, 0 to 1; 0: the experiment's default
//   chosen    options of training that were given, as texts, by name: model, dataset, batch-size,
//             lr, momentum, weight-decay
//   weights   folder of trained weights; "": none
//   pretrain  iterations that train the extractors first; 0: as many as the scale says
//   memory_left  bytes that a container leaves this process; null: it sets no limit
//   tables    see TablesJson
//
// Errors as OptionParser::Parse and CheckHosts.
absl::StatusOr<Parsed<ScriptCall>> ParseExperimentOptions(const std::vector<std::string>& args,
                                                          const Environment& environment);

// `gradwire experiment`: reads the options, then replaces this process with the script that runs,
// reports and judges. Returns only if it cannot or need not: with the exit code of the program.
int ExperimentCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_EXPERIMENT_EXPERIMENT_COMMAND_H_
