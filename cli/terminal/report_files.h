#ifndef GRADWIRE_CLI_TERMINAL_REPORT_FILES_H_
#define GRADWIRE_CLI_TERMINAL_REPORT_FILES_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace gradwire {

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

#endif  // GRADWIRE_CLI_TERMINAL_REPORT_FILES_H_
