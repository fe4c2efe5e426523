#ifndef GRADWIRE_BENCH_TABLE_H_
#define GRADWIRE_BENCH_TABLE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradwire {

// A column of a table: which field of a row, its title, and how a number is shown.
struct TableColumn {
  std::string key;
  std::string title;
  int digits = 0;  // behind the point, in Markdown
};

// Rows are JSON objects; a field that is missing or null gives an empty cell.
using TableRows = std::vector<nlohmann::ordered_json>;

// A table with columns of even width; numbers stand to the right, whole ones with
// commas. Ends with a newline.
std::string MarkdownTable(const std::vector<TableColumn>& columns, const TableRows& rows);

// Keys in the first line; numbers as they are, texts quoted where they must be.
std::string CsvTable(const std::vector<TableColumn>& columns, const TableRows& rows);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_TABLE_H_
