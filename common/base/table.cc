#include "common/base/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/json_field.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

constexpr size_t kLeastTextWidth = 8;
constexpr size_t kTextGap = 2;
constexpr size_t kLeastMarkdownWidth = 3;

Json FieldOf(const Json& row, const TableColumn& column) {
  return FieldAt(row, absl::StrCat("/", column.field));
}

std::string WithCommas(std::string digits) {
  const int first = !digits.empty() && digits[0] == '-' ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string TextCell(const Json& value, const TableColumn& column) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return "-";
  return absl::StrFormat("%.*f", column.digits, value.get<double>() * column.scale);
}

std::string MarkdownCell(const Json& value, const TableColumn& column) {
  if (value.is_number_integer()) return WithCommas(value.dump());
  return value.is_number() || value.is_string() ? TextCell(value, column) : "";
}

std::string CsvCell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

void Align(bool left, size_t width, Cells* cells) {
  for (const std::string& cell : *cells) width = std::max(width, cell.size());
  for (std::string& cell : *cells) {
    const std::string space(width - cell.size(), ' ');
    cell = left ? cell + space : space + cell;
  }
}

// What `lines_of` gives for each column, its lines side by side behind `begin`.
template <typename LinesOf>
std::string SideBySide(const std::vector<TableColumn>& columns, const char* begin,
                       LinesOf lines_of) {
  Cells lines;
  for (const TableColumn& column : columns) {
    const Cells cells = lines_of(column);
    lines.resize(cells.size(), begin);
    for (size_t i = 0; i < cells.size(); ++i) lines[i] += cells[i];
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

Cells TextLines(const TableColumn& column, const TableRows& rows) {
  Cells cells = {column.title};
  for (const Json& row : rows) cells.push_back(TextCell(FieldOf(row, column), column));
  for (std::string& cell : cells) cell.insert(0, kTextGap, ' ');
  Align(/*left=*/false, kLeastTextWidth, &cells);
  return cells;
}

Cells MarkdownLines(const TableColumn& column, const TableRows& rows) {
  Cells cells = {column.title, ""};
  bool left = false;
  for (const Json& row : rows) {
    const Json value = FieldOf(row, column);
    left = left || value.is_string();
    cells.push_back(MarkdownCell(value, column));
  }
  Align(left, kLeastMarkdownWidth, &cells);
  cells[1] = std::string(cells[1].size() - 1, '-') + (left ? "-" : ":");
  for (std::string& cell : cells) cell = absl::StrCat(" ", cell, " |");
  return cells;
}

}  // namespace

std::string TextTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  return SideBySide(columns, "", [&](const TableColumn& c) { return TextLines(c, rows); });
}

std::string MarkdownTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  return SideBySide(columns, "|", [&](const TableColumn& c) { return MarkdownLines(c, rows); });
}

std::string CsvTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  std::string text =
      absl::StrJoin(columns, ",", [](std::string* out, const TableColumn& c) { *out += c.field; }) +
      "\n";
  for (const Json& row : rows) {
    Cells cells;
    for (const TableColumn& column : columns) cells.push_back(CsvCell(FieldOf(row, column)));
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  }
  return text;
}

}  // namespace gradwire
