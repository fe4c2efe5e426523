#ifndef GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
#define GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_

#include <string>
#include <vector>

#include "common/base/environment.h"

namespace gradwire {

// `gradwire report`: an HTML page, figures and CSV from the --log-jsonl
// files of one or several runs. Returns the exit code of the program.
int ReportCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
