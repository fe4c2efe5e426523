#ifndef GRADWIRE_COMMON_BASE_JSON_FIELD_H_
#define GRADWIRE_COMMON_BASE_JSON_FIELD_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/types/optional.h"

namespace gradwire {

// Fields of JSON that came from elsewhere, where any may be missing. `pointer` is a
// JSON pointer: "/phase_seconds/data".

// Null if there is none.
nlohmann::ordered_json FieldAt(const nlohmann::ordered_json& json, const std::string& pointer);
// The number at `pointer`; none if it is missing or something else.
absl::optional<double> NumberAt(const nlohmann::ordered_json& json, const std::string& pointer);
// The text at `pointer`; "" if it is missing or something else.
std::string TextAt(const nlohmann::ordered_json& json, const std::string& pointer);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_JSON_FIELD_H_
