#include "cli/terminal/json_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLeastWidth = 8;
constexpr size_t kGap = 2;

std::string Cell(const Json& row, const JsonColumn& column) {
  const std::string text = TextAt(row, column.pointer);
  if (!text.empty()) return text;
  const absl::optional<double> number = NumberAt(row, column.pointer);
  return number ? absl::StrFormat("%.*f", column.digits, *number * column.scale) : "-";
}

}  // namespace

absl::optional<double> NumberAt(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  if (!json.contains(at) || !json.at(at).is_number()) return absl::nullopt;
  return json.at(at).get<double>();
}

std::string TextAt(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) && json.at(at).is_string() ? json.at(at).get<std::string>() : "";
}

std::string AlignedTable(const std::vector<JsonColumn>& columns, const std::vector<Json>& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const JsonColumn& column : columns) {
    std::vector<std::string> cells = {column.title};
    for (const Json& row : rows) cells.push_back(Cell(row, column));
    size_t width = kLeastWidth;
    for (const std::string& cell : cells) width = std::max(width, cell.size() + kGap);
    for (size_t i = 0; i < cells.size(); ++i) {
      absl::StrAppend(&lines[i], std::string(width - cells[i].size(), ' '), cells[i]);
    }
  }
  std::string table;
  for (const std::string& line : lines) absl::StrAppend(&table, line, "\n");
  return table;
}

}  // namespace gradwire
