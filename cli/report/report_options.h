#ifndef GRADWIRE_CLI_REPORT_REPORT_OPTIONS_H_
#define GRADWIRE_CLI_REPORT_REPORT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/report_runs.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// What `gradwire report` writes beside figures: of report.html itself, report.runs.csv and
// report.steps.csv.
std::vector<std::string> FilesOf(const std::string& out);

// What `gradwire report` was told.
struct ReportOptions {
  std::string out = "report.html";
  std::vector<std::string> logs;  // grouped into runs by their names
  std::vector<NamedLogs> runs;    // --run
};

// Reads `args`, in which logs and options may stand in any order; what stands
// behind "--" are logs. InvalidArgument and NotFound as OptionParser::Parse;
// InvalidArgument also if no log is named, or one twice, or one would be overwritten.
absl::StatusOr<Parsed<ReportOptions>> ParseReportOptions(const std::vector<std::string>& args,
                                                         const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_OPTIONS_H_
