#ifndef GRADWIRE_CLI_TERMINAL_JSON_TABLE_H_
#define GRADWIRE_CLI_TERMINAL_JSON_TABLE_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/types/optional.h"

namespace gradwire {

// A column: where its value is in a row, and how a number is shown.
struct JsonColumn {
  const char* title;
  const char* pointer;  // JSON pointer
  double scale = 1;     // a number is multiplied by it
  int digits = 0;       // behind the point
};

// The number at `pointer`; none if it is missing or something else.
absl::optional<double> NumberAt(const nlohmann::ordered_json& json, const char* pointer);
// The text at `pointer`; "" if it is missing or something else.
std::string TextAt(const nlohmann::ordered_json& json, const char* pointer);

// A line of titles and a line for each row, right-aligned, for a terminal. What is
// missing or null is shown as "-". Each line ends with a newline.
std::string AlignedTable(const std::vector<JsonColumn>& columns,
                         const std::vector<nlohmann::ordered_json>& rows);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_JSON_TABLE_H_
