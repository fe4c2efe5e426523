#include "cli/trace/trace_merge.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kClockOffset[] = "clock_offset";

// Whether a line is what TraceLog writes, as far as it is looked at here.
bool IsEvent(const Json& event) {
  if (!event.is_object() || !event.contains("ph") || !event.contains("name")) return false;
  if (event.contains("ts") && !event["ts"].is_number()) return false;
  const Json::json_pointer offset("/args/microseconds");
  return event["name"] != kClockOffset || (event.contains(offset) && event[offset].is_number());
}

// An event without the comma behind it; discarded if it is none.
Json ParseEvent(absl::string_view line) {
  absl::ConsumeSuffix(&line, ",");
  Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  return IsEvent(event) ? event : Json(Json::value_t::discarded);
}

// The events of one file, with its clock offset taken from among them.
absl::StatusOr<std::vector<Json>> ReadTrace(const std::string& path, double* clock_offset) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != "[") {
    return absl::FailedPreconditionError(absl::StrCat("no trace in '", path, "'"));
  }
  std::vector<Json> events;
  for (int number = 2; std::getline(file, line) && line != "]"; ++number) {
    Json event = ParseEvent(line);
    if (event.is_discarded()) {
      if (file.peek() == std::ifstream::traits_type::eof()) break;
      return absl::FailedPreconditionError(
          absl::StrCat("'", path, "', line ", number, ": no event: ", line));
    }
    if (event["name"] == kClockOffset) {
      *clock_offset = event["args"]["microseconds"];
    } else {
      events.push_back(std::move(event));
    }
  }
  return events;
}

}  // namespace

absl::StatusOr<std::string> MergeTraces(const std::vector<std::string>& files) {
  std::vector<Json> all;
  double first = std::numeric_limits<double>::infinity();
  for (const std::string& file : files) {
    double offset = 0;
    absl::StatusOr<std::vector<Json>> events = ReadTrace(file, &offset);
    if (!events.ok()) return events.status();
    for (Json& event : *events) {
      if (event.contains("ts")) {
        event["ts"] = event["ts"].get<double>() + offset;
        first = std::min(first, event["ts"].get<double>());
      }
      all.push_back(std::move(event));
    }
  }
  for (Json& event : all) {
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - first;
  }
  return Json({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(all)}}).dump() + "\n";
}

}  // namespace gradwire
