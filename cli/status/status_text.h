#ifndef GRADWIRE_CLI_STATUS_STATUS_TEXT_H_
#define GRADWIRE_CLI_STATUS_STATUS_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// A coordinator's /status.json. InvalidArgument if the text is no JSON, is cut
// short, or comes from another program.
absl::StatusOr<nlohmann::ordered_json> ParseStatus(absl::string_view text);

// What it says, for people: the run and its settings, progress, exposed
// communication, the slowest rank, a line for each rank with the phases of its
// last step in milliseconds, and the last events. What is missing is "-".
// `status` is of ParseStatus. Ends with a newline.
std::string StatusText(const nlohmann::ordered_json& status);

// Whether there is nothing more to come: it is finished or aborted.
bool HasEnded(const nlohmann::ordered_json& status);

// "step 17 of 196", or "no step done yet".
std::string ProgressText(const nlohmann::ordered_json& status);

// `text` cut to a terminal's size: lines of at most `columns` characters, and at
// most `rows` lines, the last of which says how many were left out.
std::string FitTo(absl::string_view text, int columns, int rows);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_STATUS_STATUS_TEXT_H_
