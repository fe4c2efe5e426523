#ifndef GRADWIRE_CLI_TERMINAL_SCRIPT_H_
#define GRADWIRE_CLI_TERMINAL_SCRIPT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// Replaces this process with Debian's Python, which runs the script PrivateFile(name), such as
// "cli/bench/bench_training.py". The process keeps its id. The first argument of the script is
// `data`, the others are `operands`: file names, which need not be UTF-8. Python ignores the user's
// settings and packages, which may not fit Debian's. Other threads end; blocked signals stay
// blocked. Returns only on errors:
//   InvalidArgument     a text in `data` is not UTF-8
//   NotFound            the script does not exist
//   FailedPrecondition  Python cannot start; says why
absl::Status BecomeScript(absl::string_view name, const nlohmann::ordered_json& data,
                          const Environment& environment,
                          const std::vector<std::string>& operands = {});

// Returns the line that runs `program` ("gradwire plan") with these arguments in a shell.
std::string CommandLine(absl::string_view program, const std::vector<std::string>& args);

// The arguments of BecomeScript for a command that is a script.
struct ScriptCall {
  std::string name;
  nlohmann::ordered_json data = nlohmann::ordered_json::object();
  std::vector<std::string> operands;
};

// Runs the script. Returns only if it cannot or need not start: the exit code of `program`
// ("gradwire report").
int RunCommand(absl::string_view program, const absl::StatusOr<Parsed<ScriptCall>>& parsed,
               const Environment& environment);

// The files of a report; an empty name: not written, or stdout for Markdown.
struct ReportFiles {
  std::string json;
  std::string csv;
  std::string markdown;
};

// Checks before a long measurement that all files can be written. InvalidArgument names option and
// cause.
absl::Status CheckWritable(const ReportFiles& files);

// The fields json, csv and markdown, for cli/runs/report.py.
nlohmann::ordered_json ToJson(const ReportFiles& files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_SCRIPT_H_
