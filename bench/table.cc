#include "bench/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

std::string WithCommas(std::string digits) {
  const int first = !digits.empty() && digits[0] == '-' ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

Json FieldOf(const Json& row, const TableColumn& column) {
  const auto field = row.find(column.key);
  return field == row.end() ? Json() : *field;
}

std::string MarkdownCell(const Json& value, const TableColumn& column) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return WithCommas(value.dump());
  if (value.is_number()) return absl::StrFormat("%.*f", column.digits, value.get<double>());
  return "";
}

std::string CsvCell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

bool HasText(const TableColumn& column, const TableRows& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return FieldOf(row, column).is_string(); });
}

// One column, all lines of it.
std::vector<std::string> ColumnLines(const TableColumn& column, const TableRows& rows) {
  std::vector<std::string> cells = {column.title, ""};
  for (const Json& row : rows) cells.push_back(MarkdownCell(FieldOf(row, column), column));
  size_t width = 3;
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  const bool left = HasText(column, rows);
  for (std::string& cell : cells) {
    const std::string space(width - cell.size(), ' ');
    cell = left ? cell + space : space + cell;
  }
  cells[1] = left ? std::string(width, '-') : std::string(width - 1, '-') + ":";
  return cells;
}

}  // namespace

std::string MarkdownTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  std::vector<std::string> lines(rows.size() + 2, "|");
  for (const TableColumn& column : columns) {
    const std::vector<std::string> cells = ColumnLines(column, rows);
    for (size_t i = 0; i < lines.size(); ++i) absl::StrAppend(&lines[i], " ", cells[i], " |");
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

std::string CsvTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  std::string text =
      absl::StrJoin(columns, ",", [](std::string* out, const TableColumn& c) { *out += c.key; }) +
      "\n";
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const TableColumn& column : columns) cells.push_back(CsvCell(FieldOf(row, column)));
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  }
  return text;
}

}  // namespace gradwire
