#include "common/telemetry/phases.h"

namespace gradwire {

using Json = nlohmann::ordered_json;

PhaseSeconds ToSeconds(const PhaseTimes& times) {
  PhaseSeconds seconds;
  for (const PhaseInfo& info : kPhases) {
    seconds[info.phase] = absl::ToDoubleSeconds(times[info.phase]);
  }
  return seconds;
}

Json PhaseJson(const PhaseSeconds& seconds) {
  Json json;
  for (const PhaseInfo& info : kPhases) json[info.name] = seconds[info.phase];
  return json;
}

Json PhaseListJson() {
  Json list = Json::array();
  for (const PhaseInfo& info : kPhases) {
    list.push_back({{"name", info.name},
                    {"title", info.title},
                    {"label", info.label},
                    {"about", info.about},
                    {"is_part", info.is_part},
                    {"colour", info.colour}});
  }
  return list;
}

}  // namespace gradwire
