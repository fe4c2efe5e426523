#include "coordinator/pages/run_pages.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"

namespace gradwire {

namespace {

struct WebFile {
  absl::string_view name;
  WebAsset asset;
};

// Of a string literal, without the NUL at its end.
template <size_t N>
constexpr absl::string_view Text(const char (&literal)[N]) {
  return absl::string_view(literal, N - 1);
}

// A line for each file of coordinator/web and of the chart library; made by
// coordinator/web/embed.cmake when the program is built.
constexpr WebFile kFiles[] = {
#include "coordinator/web_files.inc"
};

}  // namespace

const WebAsset* FindWebAsset(absl::string_view name) {
  const absl::string_view wanted = name.empty() ? "index.html" : name;
  for (const WebFile& file : kFiles) {
    if (file.name == wanted) return &file.asset;
  }
  return nullptr;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kDefaultPoints = 600;
constexpr size_t kMostPoints = 2000;

Json Finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Names may hold what is no UTF-8; that is replaced.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json PidJson(uint32_t pid) { return pid == 0 ? Json() : Json(pid); }

// The figures for pages that only some runs have, or those of every run.
void AddFigures(const StepRecord& record, bool optional, Json* json) {
  for (const StepFigure& figure : kStepFigures) {
    if (!figure.on_page || figure.optional != optional) continue;
    const absl::optional<FigureValue> value = figure.get(record);
    if (value.has_value()) (*json)[figure.key] = FigureJson(*value);
  }
}

Json RankJson(const v1::RankStatus& rank, const std::optional<RankProgress>& progress) {
  const RankProgress last = progress.value_or(RankProgress());
  Json json = {{"rank", rank.rank()},
               {"address", rank.address()},
               {"pid", PidJson(rank.pid())},
               {"metrics", rank.metrics()},
               {"state", rank.state()},
               {"steps_done", rank.steps_done()},
               {"loss", progress ? Finite(last.last.loss) : Json()},
               {"iteration_seconds", absl::ToDoubleSeconds(last.last.iteration)},
               {"phase_seconds", PhaseJson(ToSeconds(last.last.phases))},
               {"work_seconds", absl::ToDoubleSeconds(last.work)}};
  if (progress && !last.last.loss_told) json.erase("loss");
  AddFigures(last.last, false, &json);
  json["heard_seconds"] = rank.has_silent_seconds() ? Json(rank.silent_seconds()) : Json();
  AddFigures(last.last, true, &json);
  return json;
}

Json EventsJson(const RunHistory& history) {
  Json events = Json::array();
  for (const RunEvent& event : history.Events()) {
    events.push_back({{"time", UnixSeconds(event.time)},
                      {"step", event.step.value()},
                      {"kind", event.kind},
                      {"text", event.text}});
  }
  return events;
}

Json Numbers(const std::vector<Rank>& ranks) {
  Json numbers = Json::array();
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

Json LossJson(const LostWorker& loss) {
  Json json = {{"time", UnixSeconds(loss.time)}, {"step", loss.step.value()},
               {"ranks", Numbers(loss.ranks)},   {"cause", loss.cause},
               {"address", loss.address},        {"pid", PidJson(loss.pid)},
               {"seconds_lost", nullptr},        {"seconds_lost_by_phase", nullptr},
               {"generation", nullptr},          {"first_step", nullptr},
               {"carriers", Json::array()}};
  if (!loss.continued) return json;
  if (const auto& cost = loss.continued->cost) {
    json["seconds_lost"] = absl::ToDoubleSeconds(cost->total());
    json["seconds_lost_by_phase"] = PhasesOf(*cost);
  }
  json["generation"] = loss.continued->generation.value();
  json["first_step"] = loss.continued->first_step.value();
  for (const Adoption& adoption : loss.continued->adoptions) {
    json["carriers"].push_back({{"address", adoption.by.address},
                                {"ranks", Numbers(adoption.by.ranks)},
                                {"adopted", Numbers(adoption.ranks)}});
  }
  return json;
}

// Names as in a worker's summary.
Json FailuresJson(const LossHistory& history, uint64_t views) {
  const LossHistory::Totals totals = history.totals();
  Json losses = Json::array();
  for (const LostWorker& loss : history.Losses()) losses.push_back(LossJson(loss));
  return {{"views", views},
          {"losses", totals.losses},
          {"recomputed_ranks", totals.recovered_ranks},
          {"seconds_lost", absl::ToDoubleSeconds(totals.lost.total())},
          {"seconds_lost_by_phase", PhasesOf(totals.lost)},
          {"last", std::move(losses)}};
}

// Means of what this process did in an iteration; null if no iteration counts.
Json CoordinatorJson(const RunHistory& history) {
  const AggregationTotals totals = history.aggregation();
  if (totals.iterations == 0) return nullptr;
  const auto mean = [&totals](absl::Duration sum) {
    return absl::ToDoubleSeconds(sum) / static_cast<double>(totals.iterations);
  };
  const AggregationTimes& times = totals.times;
  return {{"iterations", totals.iterations},
          {"iteration_seconds", {{"mean", mean(times.iteration())}}},
          {"phase_seconds",
           {{"wait", mean(times.wait)},
            {"receive", mean(times.receive)},
            {"fold", mean(times.fold)},
            {"send", mean(times.send)},
            {"hidden_send", mean(times.hidden_send)}}}};
}

std::string RunOf(const v1::StatusReply& status) { return absl::BytesToHexString(status.run_id()); }

}  // namespace

uint64_t StepsDone(const v1::StatusReply& status) {
  if (status.ranks().empty()) return 0;
  return std::min_element(status.ranks().begin(), status.ranks().end(),
                          [](const v1::RankStatus& a, const v1::RankStatus& b) {
                            return a.steps_done() < b.steps_done();
                          })
      ->steps_done();
}

std::string StatusJson(const v1::StatusReply& status, const RunHistory& history, absl::Time now) {
  Json json = {{"program", status.program()},
               {"version", status.version()},
               {"run", RunOf(status)},
               {"state", status.state()},
               {"reason", status.reason()},
               {"epoch", status.epoch()},
               {"generation", status.generation()},
               {"world_size", status.world_size()},
               {"settings", Json::object()},
               {"step", StepsDone(status)},
               {"total_steps", history.total_steps()},
               {"now", UnixSeconds(now)},
               {"phases", PhaseListJson()},
               {"started", nullptr},
               {"slowest_rank", nullptr},
               {"ranks", Json::array()},
               {"coordinator", CoordinatorJson(history)},
               {"failures", FailuresJson(history.losses(), status.generation())},
               {"events", EventsJson(history)}};
  const std::map<std::string, std::string> settings(status.settings().begin(),
                                                    status.settings().end());
  for (const auto& [name, value] : settings) json["settings"][name] = value;
  if (const auto started = history.started()) json["started"] = UnixSeconds(*started);
  if (const auto slowest = history.Slowest()) json["slowest_rank"] = slowest->value();
  for (const v1::RankStatus& rank : status.ranks()) {
    json["ranks"].push_back(
        RankJson(rank, history.ProgressOf(Rank(static_cast<int>(rank.rank())))));
  }
  return Dump(json);
}

std::string CoordinatorSummary(const RunHistory& history) {
  return CoordinatorJson(history).dump(2) + "\n";
}

std::string HistoryJson(const RunHistory& history, absl::string_view run_id, size_t points) {
  Json list = Json::array();
  uint64_t resolution = 1;
  for (const HistoryPoint& point : history.Points(points)) {
    resolution = std::max(resolution, point.steps);
    list.push_back({{"step", point.first.value()},
                    {"steps", point.steps},
                    {"time", UnixSeconds(point.end)},
                    {"iteration_seconds", absl::ToDoubleSeconds(point.iteration)},
                    {"longest_seconds", absl::ToDoubleSeconds(point.longest)},
                    {"phase_seconds", PhaseJson(ToSeconds(point.phases))},
                    {"loss", point.loss ? Json(*point.loss) : Json()},
                    {"samples_per_second", point.samples_per_second},
                    {"bytes_sent", point.bytes_sent}});
  }
  return Dump({{"run", absl::BytesToHexString(run_id)},
               {"resolution", resolution},
               {"points", std::move(list)}});
}

std::string TargetsJson(const v1::StatusReply& status, absl::string_view own_address) {
  const std::string run = RunOf(status);
  Json targets = Json::array();
  targets.push_back({{"targets", {std::string(own_address)}},
                     {"labels", {{"run", run}, {"program", "coordinator"}, {"__param_run", run}}}});
  for (const v1::RankStatus& rank : status.ranks()) {
    const bool is_there = rank.state() == "running" || rank.state() == "silent";
    if (rank.metrics().empty() || !is_there) continue;
    targets.push_back(
        {{"targets", {rank.metrics()}},
         {"labels", {{"run", run}, {"program", "worker"}, {"rank", std::to_string(rank.rank())}}}});
  }
  return Dump(targets);
}

absl::optional<Page> AnswerOtherRun(absl::string_view query, absl::string_view run) {
  for (absl::string_view item : absl::StrSplit(query, '&')) {
    if (!absl::ConsumePrefix(&item, "run=") || item == run) continue;
    return Page{404, "text/plain; charset=utf-8",
                absl::StrCat("run ", item, " is not here, but run ", run, "\n")};
  }
  return absl::nullopt;
}

absl::StatusOr<size_t> PointsOfQuery(absl::string_view query) {
  size_t points = kDefaultPoints;
  for (absl::string_view item : absl::StrSplit(query, '&')) {
    if (!absl::ConsumePrefix(&item, "points=")) continue;
    if (!absl::SimpleAtoi(item, &points) || points == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("points: got '", item, "', expected a number of 1 or more"));
    }
  }
  return std::min(points, kMostPoints);
}

}  // namespace gradwire
