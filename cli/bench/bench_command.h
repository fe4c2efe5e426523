#ifndef GRADWIRE_CLI_BENCH_BENCH_COMMAND_H_
#define GRADWIRE_CLI_BENCH_BENCH_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire bench collectives` and `gradwire bench training`: reads the options, then becomes
// the script that measures, prints and writes the report. Returns, with the exit code of the
// program, only if there is nothing to measure.
int BenchCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_COMMAND_H_
