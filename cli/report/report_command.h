#ifndef GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
#define GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"

namespace gradwire {

// Reads `args`, in which logs and options may stand in any order; what stands behind "--" are
// logs. The call is of report.py, which says what it takes. Errors as OptionParser::Parse.
absl::StatusOr<Parsed<ScriptCall>> ParseReportOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire report`: an HTML page, figures and CSV from the --log-jsonl
// files of one or several runs. Returns the exit code of the program.
int ReportCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_COMMAND_H_
