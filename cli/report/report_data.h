#ifndef GRADWIRE_CLI_REPORT_REPORT_DATA_H_
#define GRADWIRE_CLI_REPORT_REPORT_DATA_H_

#include <string>
#include <vector>

#include "cli/launch/bottleneck.h"
#include "cli/report/report_runs.h"

namespace gradwire {

// Means over a rank's iterations but the first in its log, which warms up; NaN if there
// is no other. A time that was not measured counts in no mean.
RankTimes MeansOf(const RankLog& log);

// What libexec/report/report.py gets, as JSON: the list of phases, the runs with their logs
// as they were read, what holds each of them up, and the notes that stand in the page. Text that is
// no UTF-8 has replacement characters in it.
std::string ReportData(const std::vector<LoggedRun>& runs, const std::vector<std::string>& notes);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_DATA_H_
