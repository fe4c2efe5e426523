#include "common/base/json_field.h"

namespace gradwire {

using Json = nlohmann::ordered_json;

Json FieldAt(const Json& json, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) ? json.at(at) : Json();
}

absl::optional<double> NumberAt(const Json& json, const std::string& pointer) {
  const Json field = FieldAt(json, pointer);
  if (!field.is_number()) return absl::nullopt;
  return field.get<double>();
}

std::string TextAt(const Json& json, const std::string& pointer) {
  const Json field = FieldAt(json, pointer);
  return field.is_string() ? field.get<std::string>() : "";
}

}  // namespace gradwire
