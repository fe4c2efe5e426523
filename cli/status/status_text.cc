#include "cli/status/status_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/json_field.h"
#include "common/base/table.h"
#include "common/telemetry/phases.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kProgram[] = "gradwire-coordinator";
constexpr size_t kShownEvents = 10;

// With the phases that the coordinator names.
std::vector<TableColumn> RankColumns(const Json& status) {
  std::vector<TableColumn> columns = {{"rank", "rank"},
                                      {"state", "state"},
                                      {"steps_done", "steps"},
                                      {"iteration_seconds", "iteration ms", 1, 1000}};
  for (const Json& phase : status.value("phases", Json::array())) {
    const auto pointer = Json::json_pointer("/phase_seconds") / TextAt(phase, "/name");
    columns.push_back({pointer.to_string().substr(1), TextAt(phase, "/title"), 1, 1000});
  }
  columns.push_back({"work_seconds", "own work", 1, 1000});
  columns.push_back({"loss", "loss", 4});
  columns.push_back({"heard_seconds", "heard s ago", 1});
  columns.push_back({"address", "address"});
  return columns;
}

// Over all ranks; 0 where nobody has a number.
double SumOf(const Json& status, const char* pointer) {
  double sum = 0;
  for (const Json& rank : status.at("ranks")) sum += NumberAt(rank, pointer).value_or(0);
  return sum;
}

absl::optional<double> MeanOf(const Json& status, const char* pointer) {
  double sum = 0;
  int count = 0;
  for (const Json& rank : status.at("ranks")) {
    const absl::optional<double> value = NumberAt(rank, pointer);
    if (!value) continue;
    sum += *value;
    ++count;
  }
  return count == 0 ? absl::nullopt : absl::make_optional(sum / count);
}

std::string HeadLine(const Json& status) {
  std::vector<std::string> parts = {
      absl::StrCat("run ", TextAt(status, "/run").substr(0, 12), ": ", TextAt(status, "/state"))};
  const std::string reason = TextAt(status, "/reason");
  if (!reason.empty()) parts.back() += absl::StrCat(" (", reason, ")");
  parts.push_back(absl::StrFormat("%d of %.0f ranks", status.at("ranks").size(),
                                  NumberAt(status, "/world_size").value_or(0)));
  if (const auto view = NumberAt(status, "/generation")) {
    parts.push_back(absl::StrFormat("view %.0f", *view));
  }
  return absl::StrJoin(parts, ", ");
}

std::string SettingsLine(const Json& status) {
  std::vector<std::string> parts;
  for (const char* name :
       {"model", "dataset", "sync", "backend", "wire", "batch-size", "bucket-cap-mb"}) {
    const std::string value = TextAt(status, absl::StrCat("/settings/", name));
    if (!value.empty()) parts.push_back(absl::StrCat(name, " ", value));
  }
  return absl::StrJoin(parts, ", ");
}

absl::optional<absl::Duration> TimeLeft(const Json& status) {
  const auto step = NumberAt(status, "/step");
  const auto total = NumberAt(status, "/total_steps");
  const auto iteration = MeanOf(status, "/iteration_seconds");
  if (HasEnded(status) || !step || !total || !iteration || *total <= *step) return absl::nullopt;
  return absl::Seconds((*total - *step) * *iteration);
}

std::string ProgressLine(const Json& status) {
  std::vector<std::string> parts = {ProgressText(status)};
  const absl::optional<double> iteration = MeanOf(status, "/iteration_seconds");
  if (iteration && *iteration > 0) {
    parts.push_back(absl::StrFormat("%.1f ms an iteration", *iteration * 1000));
    parts.push_back(absl::StrFormat("%.1f images/s", SumOf(status, "/samples") / *iteration));
  }
  if (const auto loss = MeanOf(status, "/loss")) {
    parts.push_back(absl::StrFormat("loss %.4f", *loss));
  }
  if (const auto left = TimeLeft(status)) {
    parts.push_back(
        absl::StrCat(absl::FormatDuration(absl::Trunc(*left, absl::Seconds(1))), " left"));
  }
  return absl::StrJoin(parts, ", ");
}

std::string ExposedLine(const Json& status) {
  const double iteration = SumOf(status, "/iteration_seconds");
  if (iteration <= 0) return "";
  const double exposed = SumOf(status, InfoOf(Phase::kExposedCommunication).pointer);
  return absl::StrFormat("exposed communication: %.0f %% of the last iteration",
                         exposed / iteration * 100);
}

std::string SlowestLine(const Json& status) {
  const absl::optional<double> slowest = NumberAt(status, "/slowest_rank");
  if (!slowest) return "";
  std::string line = absl::StrFormat("slowest: rank %.0f", *slowest);
  double others = 0;
  int count = 0;
  absl::optional<double> own;
  for (const Json& rank : status.at("ranks")) {
    const absl::optional<double> work = NumberAt(rank, "/work_seconds");
    if (!work) continue;
    if (NumberAt(rank, "/rank") == slowest) {
      own = work;
    } else {
      others += *work;
      ++count;
    }
  }
  if (!own || count == 0) return line;
  absl::StrAppendFormat(&line, ", %.1f ms of own work an iteration; the others %.1f ms",
                        *own * 1000, others / count * 1000);
  return line;
}

std::string EventLine(const Json& event) {
  const absl::Time time = absl::UnixEpoch() + absl::Seconds(NumberAt(event, "/time").value_or(0));
  return absl::StrFormat(
      "  %s  step %-6.0f %-9s %s", absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone()),
      NumberAt(event, "/step").value_or(0), TextAt(event, "/kind"), TextAt(event, "/text"));
}

std::vector<std::string> EventLines(const Json& status) {
  if (!status.contains("events") || !status.at("events").is_array()) return {};
  const Json& events = status.at("events");
  std::vector<std::string> lines;
  const size_t first = events.size() - std::min(events.size(), kShownEvents);
  if (!events.empty()) lines = {"", "events"};
  for (size_t i = first; i < events.size(); ++i) lines.push_back(EventLine(events[i]));
  return lines;
}

std::string RankTable(const Json& status) {
  const Json& ranks = status.at("ranks");
  return ranks.empty() ? "" : "\n" + TextTable(RankColumns(status), {ranks.begin(), ranks.end()});
}

// At most `columns` characters; one of UTF-8 may have several bytes.
std::string Cut(absl::string_view line, int columns) {
  int characters = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (begins && ++characters > columns) return std::string(line.substr(0, i));
  }
  return std::string(line);
}

}  // namespace

absl::StatusOr<Json> ParseStatus(absl::string_view text) {
  Json status =
      Json::parse(text.data(), text.data() + text.size(), nullptr, /*allow_exceptions=*/false);
  if (status.is_discarded()) return absl::InvalidArgumentError("its answer is no JSON");
  if (TextAt(status, "/program") != kProgram) {
    return absl::InvalidArgumentError("its answer is not a coordinator's");
  }
  if (TextAt(status, "/state").empty() || !status.contains("ranks") ||
      !status.at("ranks").is_array()) {
    return absl::InvalidArgumentError("its answer lacks state or ranks");
  }
  return status;
}

std::string StatusText(const Json& status) {
  std::string text;
  for (const std::string& line : {HeadLine(status), SettingsLine(status), ProgressLine(status),
                                  ExposedLine(status), SlowestLine(status)}) {
    if (!line.empty()) absl::StrAppend(&text, line, "\n");
  }
  absl::StrAppend(&text, RankTable(status));
  for (const std::string& line : EventLines(status)) absl::StrAppend(&text, line, "\n");
  return text;
}

bool HasEnded(const Json& status) {
  const std::string state = TextAt(status, "/state");
  return state == "finished" || state == "aborted";
}

std::string ProgressText(const Json& status) {
  const double step = NumberAt(status, "/step").value_or(0);
  const double total = NumberAt(status, "/total_steps").value_or(0);
  if (step <= 0) return "no step done yet";
  if (total <= 0) return absl::StrFormat("step %.0f", step);
  return absl::StrFormat("step %.0f of %.0f", step, total);
}

std::string FitTo(absl::string_view text, int columns, int rows) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t most = static_cast<size_t>(std::max(rows, 1));
  if (lines.size() > most) {
    const size_t left_out = lines.size() - most + 1;
    lines.resize(most - 1);
    lines.push_back(absl::StrCat("... ", left_out, " more lines"));
  }
  std::string fitted;
  for (const std::string& line : lines) absl::StrAppend(&fitted, Cut(line, columns), "\n");
  return fitted;
}

}  // namespace gradwire
