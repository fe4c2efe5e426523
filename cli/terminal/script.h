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

// Replaces this process, which keeps its id, by Debian's Python running the script
// PrivateFile(name), such as "cli/bench/bench_training.py", with `data` as its first argument and
// `operands` as the others: names of files, which may be many and need not be UTF-8. Without the
// settings and packages of this user's Python, which may not fit Debian's. Other threads
// end; signals that are blocked stay so. Returns only if it cannot be done:
//   InvalidArgument     a text in `data` is not UTF-8
//   NotFound            the script is not there
//   FailedPrecondition  Python cannot be started: why
absl::Status BecomeScript(absl::string_view name, const nlohmann::ordered_json& data,
                          const Environment& environment,
                          const std::vector<std::string>& operands = {});

// A command that is Python: what its options say, as BecomeScript takes it.
struct ScriptCall {
  std::string name;
  nlohmann::ordered_json data = nlohmann::ordered_json::object();
  std::vector<std::string> operands;
};

// What such a command does. Returns the exit code of `program` ("gradwire report") if nothing is to
// be started, or cannot be.
int RunCommand(absl::string_view program, const absl::StatusOr<Parsed<ScriptCall>>& parsed,
               const Environment& environment);

// Where a report goes; an empty name means nowhere, but for Markdown stdout.
struct ReportFiles {
  std::string json;
  std::string csv;
  std::string markdown;
};

// Whether all files can be written, before a long measurement: InvalidArgument
// names option and cause.
absl::Status CheckWritable(const ReportFiles& files);

// As cli/runs/report.py takes them: json, csv, markdown.
nlohmann::ordered_json ToJson(const ReportFiles& files);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_SCRIPT_H_
