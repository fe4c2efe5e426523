#include "common/telemetry/phases.h"

#include <cmath>

#include "absl/strings/str_format.h"

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

namespace {

absl::Duration DurationOf(double seconds) {
  return std::isfinite(seconds) && seconds > 0 ? absl::Seconds(seconds) : absl::ZeroDuration();
}

}  // namespace

LostTime& operator+=(LostTime& sum, const LostTime& more) {
  sum.computing += more.computing;
  sum.waiting += more.waiting;
  sum.connecting += more.connecting;
  return sum;
}

std::string Describe(const LostTime& lost) {
  return absl::StrFormat("%.3f s: computing %.3f, waiting %.3f, connecting %.3f",
                         absl::ToDoubleSeconds(lost.total()), absl::ToDoubleSeconds(lost.computing),
                         absl::ToDoubleSeconds(lost.waiting),
                         absl::ToDoubleSeconds(lost.connecting));
}

nlohmann::ordered_json PhasesOf(const LostTime& lost) {
  return {{"computing", absl::ToDoubleSeconds(lost.computing)},
          {"waiting", absl::ToDoubleSeconds(lost.waiting)},
          {"connecting", absl::ToDoubleSeconds(lost.connecting)}};
}

v1::LostTime ToProto(const LostTime& lost) {
  v1::LostTime message;
  message.set_computing(absl::ToDoubleSeconds(lost.computing));
  message.set_waiting(absl::ToDoubleSeconds(lost.waiting));
  message.set_connecting(absl::ToDoubleSeconds(lost.connecting));
  return message;
}

LostTime FromProto(const v1::LostTime& lost) {
  return {DurationOf(lost.computing()), DurationOf(lost.waiting()), DurationOf(lost.connecting())};
}

}  // namespace gradwire
