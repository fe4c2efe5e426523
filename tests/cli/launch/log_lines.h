#ifndef GRADWIRE_TESTS_CLI_LAUNCH_LOG_LINES_H_
#define GRADWIRE_TESTS_CLI_LAUNCH_LOG_LINES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "cli/report/report_log.h"

namespace gradwire::testing {

// A line as --log-jsonl has it, with its newline: an iteration of `seconds`, of
// which 0.1 are forward, 0.05 exposed communication and the rest backward.
std::string LogLine(int rank, int step, double seconds = 0.5, double loss = 2.0);
// `steps` of them, from step 0; the loss falls by 0.1 a step.
std::string LogText(int rank, int steps, double seconds = 0.5);
// The same, read. Aborts if that fails.
RankLog MakeLog(const std::string& file, int rank, int steps = 3, double seconds = 0.5);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_CLI_LAUNCH_LOG_LINES_H_
