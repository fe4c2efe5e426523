#include "common/base/table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/json_field.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

constexpr size_t kLeastWidth = 8;
constexpr size_t kGap = 2;

std::string Cell(const Json& row, const TableColumn& column) {
  const Json value = FieldAt(row, absl::StrCat("/", column.field));
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return "-";
  return absl::StrFormat("%.*f", column.digits, value.get<double>() * column.scale);
}

// Title and cells, equally wide.
Cells LinesOf(const TableColumn& column, const TableRows& rows) {
  Cells cells = {column.title};
  for (const Json& row : rows) cells.push_back(Cell(row, column));
  size_t width = kLeastWidth;
  for (const std::string& cell : cells) width = std::max(width, cell.size() + kGap);
  for (std::string& cell : cells) cell.insert(0, width - cell.size(), ' ');
  return cells;
}

}  // namespace

std::string TextTable(const std::vector<TableColumn>& columns, const TableRows& rows) {
  Cells lines(rows.size() + 1);
  for (const TableColumn& column : columns) {
    const Cells cells = LinesOf(column, rows);
    for (size_t i = 0; i < cells.size(); ++i) lines[i] += cells[i];
  }
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace gradwire
