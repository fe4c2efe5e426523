#ifndef GRADWIRE_BENCH_REPORT_H_
#define GRADWIRE_BENCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/table.h"

namespace gradwire {

// A table of a report.
struct ReportPart {
  std::string key;    // in JSON
  std::string title;  // in Markdown
  std::vector<TableColumn> columns;
  TableRows rows;
};

// What a measurement came to.
struct Report {
  std::string title;
  std::string command;  // that made it
  nlohmann::ordered_json environment;
  std::vector<std::string> notes;  // sentences
  std::vector<ReportPart> parts;   // the first one is what CSV holds
};

std::string ToMarkdown(const Report& report);
std::string ToJson(const Report& report);

// Where a report goes; an empty name means nowhere, but for Markdown stdout.
struct ReportFiles {
  std::string json;
  std::string csv;
  std::string markdown;
};

// Whether all files can be written, before a long measurement: InvalidArgument
// names option and cause.
absl::Status CheckWritable(const ReportFiles& files);
// Errors of ReplaceFile; Internal if stdout cannot be written.
absl::Status WriteReport(const Report& report, const ReportFiles& files);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_REPORT_H_
