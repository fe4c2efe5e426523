#ifndef GRADWIRE_COMMON_BASE_TABLE_H_
#define GRADWIRE_COMMON_BASE_TABLE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradwire {

// A column of a table: which field of a row, its title, and how a number is shown.
struct TableColumn {
  std::string field;  // "p50_us", or "phase_seconds/data" for one within another
  std::string title;
  int digits = 0;    // behind the point
  double scale = 1;  // a number is multiplied by it
};

// JSON objects; a field may be missing or null.
using TableRows = std::vector<nlohmann::ordered_json>;

// A head, then a line for each row, for a terminal: all right-aligned, at least 8 wide.
// What is missing is "-".
std::string TextTable(const std::vector<TableColumn>& columns, const TableRows& rows);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_TABLE_H_
