#include "bench/report.h"

#include <iostream>

#include "absl/strings/str_cat.h"
#include "bench/machine.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"

namespace gradwire {

std::string ToMarkdown(const Report& report) {
  std::string text = absl::StrCat("## ", report.title, "\n\n    ", report.command, "\n\n",
                                  MarkdownList(report.environment));
  for (const ReportPart& part : report.parts) {
    if (!part.title.empty()) absl::StrAppend(&text, "\n", part.title, ":\n");
    absl::StrAppend(&text, "\n", MarkdownTable(part.columns, part.rows));
  }
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) absl::StrAppend(&text, note, "\n");
  return text;
}

std::string ToJson(const Report& report) {
  nlohmann::ordered_json json = {{"title", report.title},
                                 {"command", report.command},
                                 {"environment", report.environment},
                                 {"notes", report.notes}};
  for (const ReportPart& part : report.parts) json[part.key] = part.rows;
  return json.dump(2) + "\n";
}

absl::Status CheckWritable(const ReportFiles& files) {
  const std::pair<const char*, const std::string&> outputs[] = {
      {"--json", files.json}, {"--csv", files.csv}, {"--markdown", files.markdown}};
  for (const auto& [option, file] : outputs) {
    const absl::Status status = file.empty() ? absl::OkStatus() : CheckWritable(file);
    if (!status.ok()) return Annotate(status, option);
  }
  return absl::OkStatus();
}

absl::Status WriteReport(const Report& report, const ReportFiles& files) {
  absl::Status status;
  if (!files.json.empty()) status.Update(ReplaceFile(files.json, ToJson(report)));
  if (!files.csv.empty()) {
    const ReportPart& part = report.parts.front();
    status.Update(ReplaceFile(files.csv, CsvTable(part.columns, part.rows)));
  }
  if (!files.markdown.empty()) {
    status.Update(ReplaceFile(files.markdown, ToMarkdown(report)));
    return status;
  }
  std::cout << ToMarkdown(report) << std::flush;
  if (!std::cout.good()) status.Update(absl::InternalError("cannot write to stdout"));
  return status;
}

}  // namespace gradwire
