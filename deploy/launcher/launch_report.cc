#include "deploy/launcher/launch_report.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// A column: where its number is, and how it is shown.
struct Column {
  const char* title;
  const char* pointer;
  double scale;
  int digits;
};

constexpr Column kColumns[] = {
    {"rank", "/rank", 1, 0},
    {"p50 ms", "/iteration_seconds/p50", 1000, 1},
    {"data", "/phase_seconds/data", 1000, 1},
    {"forward", "/phase_seconds/forward", 1000, 1},
    {"backward", "/phase_seconds/backward", 1000, 1},
    {"communication", "/phase_seconds/communication", 1000, 1},
    {"exposed", "/phase_seconds/exposed_communication", 1000, 1},
    {"optimizer", "/phase_seconds/optimizer", 1000, 1},
    {"first loss", "/loss/first", 1, 4},
    {"last loss", "/loss/last", 1, 4},
    {"accuracy %", "/test/accuracy", 100, 2},
};

std::string Cell(const Json& summary, const Column& column) {
  const Json::json_pointer pointer(column.pointer);
  const bool known = summary.contains(pointer) && summary.at(pointer).is_number();
  if (!known) return "-";
  return absl::StrFormat("%.*f", column.digits, summary.at(pointer).get<double>() * column.scale);
}

int Width(const Column& column) {
  return std::max(8, static_cast<int>(std::string(column.title).size()) + 2);
}

absl::StatusOr<Json> ReadSummary(const std::string& path) {
  std::ifstream file(path);
  Json summary = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!file.is_open() || !summary.is_object()) {
    return absl::FailedPreconditionError(absl::StrCat("no summary in '", path, "'"));
  }
  return summary;
}

}  // namespace

absl::StatusOr<Json> CollectSummaries(const std::vector<std::string>& files) {
  Json ranks = Json::array();
  for (const std::string& file : files) {
    absl::StatusOr<Json> summary = ReadSummary(file);
    if (!summary.ok()) return summary.status();
    ranks.push_back(*std::move(summary));
  }
  return Json{{"ranks", std::move(ranks)}};
}

std::string SummaryTable(const Json& summaries) {
  std::string table;
  for (const Column& column : kColumns) {
    absl::StrAppendFormat(&table, "%*s", Width(column), column.title);
  }
  table += "\n";
  for (const Json& summary : summaries.at("ranks")) {
    for (const Column& column : kColumns) {
      absl::StrAppendFormat(&table, "%*s", Width(column), Cell(summary, column));
    }
    table += "\n";
  }
  return table;
}

}  // namespace gradwire
