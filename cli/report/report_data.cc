#include "cli/report/report_data.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// Of `value(record)` over the iterations that count, where it is finite.
template <typename Value>
double Mean(const RankLog& log, Value value) {
  double sum = 0;
  int count = 0;
  for (size_t i = 1; i < log.records.size(); ++i) {
    const double seconds = value(log.records[i]);
    if (!std::isfinite(seconds) || !std::isfinite(log.records[i].iteration)) continue;
    sum += seconds;
    ++count;
  }
  return count == 0 ? kUnmeasured : sum / count;
}

std::string BottleneckOf(const LoggedRun& run) {
  RunTimes times;
  for (const RankLog& log : run.ranks) times.ranks.push_back(MeansOf(log));
  return FindBottleneck(times).sentence;
}

Json RunJson(const LoggedRun& run) {
  Json json = {{"name", run.name},
               {"setup", run.setup},
               {"bottleneck", BottleneckOf(run)},
               {"ranks", Json::array()}};
  for (const RankLog& log : run.ranks) {
    json["ranks"].push_back({{"rank", log.rank}, {"log", log.text}});
  }
  return json;
}

}  // namespace

RankTimes MeansOf(const RankLog& log) {
  RankTimes means;
  means.rank = log.rank;
  means.iteration = Mean(log, [](const LogRecord& record) { return record.iteration; });
  for (const PhaseInfo& info : kPhases) {
    means.phases[info.phase] =
        Mean(log, [&](const LogRecord& record) { return record.phases[info.phase]; });
  }
  return means;
}

std::string ReportData(const std::vector<LoggedRun>& runs, const std::vector<std::string>& notes) {
  Json data = {{"phases", PhaseListJson()}, {"notes", notes}, {"runs", Json::array()}};
  for (const LoggedRun& run : runs) data["runs"].push_back(RunJson(run));
  return data.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace gradwire
