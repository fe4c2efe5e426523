#include "cli/report/report_stats.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/table.h"
#include "cli/launch/bottleneck.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// The mean of what is finite.
class Mean {
 public:
  void Add(double value) {
    if (!std::isfinite(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? kUnmeasured : sum_ / count_; }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

class PhaseMeans {
 public:
  void Add(const PhaseSeconds& phases) {
    data_.Add(phases.data);
    forward_.Add(phases.forward);
    backward_.Add(phases.backward);
    communication_.Add(phases.communication);
    exposed_.Add(phases.exposed_communication);
    optimizer_.Add(phases.optimizer);
  }
  PhaseSeconds value() const {
    return {data_.value(),          forward_.value(), backward_.value(),
            communication_.value(), exposed_.value(), optimizer_.value()};
  }

 private:
  Mean data_, forward_, backward_, communication_, exposed_, optimizer_;
};

double OwnWork(const LogRecord& record) {
  const double work = record.iteration - record.phases.exposed_communication;
  return std::isfinite(work) ? work : -1;
}

StepStats DescribeStep(const std::vector<const LogRecord*>& records) {
  StepStats step;
  Mean loss, iteration;
  PhaseMeans phases;
  const LogRecord* slowest = records.front();
  step.step = slowest->step;
  step.epoch = slowest->epoch;
  step.ranks = static_cast<int>(records.size());
  step.longest = kUnmeasured;
  for (const LogRecord* record : records) {
    loss.Add(record->loss);
    iteration.Add(record->iteration);
    phases.Add(record->phases);
    step.longest = std::fmax(step.longest, record->iteration);
    step.samples += record->samples;
    step.bytes_sent += record->bytes_sent;
    step.bytes_received += record->bytes_received;
    if (OwnWork(*record) > OwnWork(*slowest)) slowest = record;
  }
  step.loss = loss.value();
  step.iteration = iteration.value();
  step.phases = phases.value();
  step.slowest_rank = slowest->rank;
  return step;
}

std::vector<StepStats> DescribeSteps(const LoggedRun& run) {
  std::map<uint64_t, std::vector<const LogRecord*>> by_step;
  for (const RankLog& log : run.ranks) {
    for (const LogRecord& record : log.records) by_step[record.step].push_back(&record);
  }
  std::vector<StepStats> steps;
  for (const auto& [step, records] : by_step) steps.push_back(DescribeStep(records));
  return steps;
}

// Of one rank, without its first iteration.
struct RankMeans {
  RankTimes times;
  double samples_per_second = kUnmeasured;
};

RankMeans DescribeRank(const RankLog& log, std::vector<double>* iterations, PhaseMeans* of_run) {
  Mean iteration;
  PhaseMeans phases;
  double seconds = 0;
  double samples = 0;
  for (size_t i = 1; i < log.records.size(); ++i) {
    const LogRecord& record = log.records[i];
    if (!std::isfinite(record.iteration)) continue;
    iterations->push_back(record.iteration);
    iteration.Add(record.iteration);
    phases.Add(record.phases);
    of_run->Add(record.phases);
    seconds += record.iteration;
    samples += static_cast<double>(record.samples);
  }
  RankMeans means;
  means.times = {log.rank, iteration.value(), phases.value()};
  if (seconds > 0) means.samples_per_second = samples / seconds;
  return means;
}

double FirstLoss(const std::vector<StepStats>& steps) {
  for (const StepStats& step : steps) {
    if (std::isfinite(step.loss)) return step.loss;
  }
  return kUnmeasured;
}

// NaN has no place in CSV.
Json Field(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void AddPhases(const PhaseSeconds& phases, Json* row) {
  (*row)["data_seconds"] = Field(phases.data);
  (*row)["forward_seconds"] = Field(phases.forward);
  (*row)["backward_seconds"] = Field(phases.backward);
  (*row)["communication_seconds"] = Field(phases.communication);
  (*row)["exposed_communication_seconds"] = Field(phases.exposed_communication);
  (*row)["optimizer_seconds"] = Field(phases.optimizer);
}

Json RunRow(const RunStats& run) {
  Json row = {{"run", run.name},
              {"setup", run.setup},
              {"ranks", run.ranks},
              {"steps", run.steps},
              {"iteration_seconds_p50", Field(run.iteration.p50)},
              {"iteration_seconds_p90", Field(run.iteration.p90)},
              {"iteration_seconds_mean", Field(run.iteration.mean)}};
  AddPhases(run.phases, &row);
  row["exposed_share"] = Field(run.phases.exposed_communication / run.iteration.mean);
  row["samples_per_second"] = Field(run.samples_per_second);
  row["bytes_sent_per_rank_and_step"] = Field(run.bytes_sent);
  row["first_loss"] = Field(run.first_loss);
  row["last_loss"] = Field(run.last_loss);
  return row;
}

Json StepRow(const RunStats& run, const StepStats& step) {
  Json row = {{"run", run.name},
              {"step", step.step},
              {"epoch", step.epoch},
              {"ranks", step.ranks},
              {"loss", Field(step.loss)},
              {"samples", step.samples},
              {"iteration_seconds", Field(step.iteration)},
              {"longest_iteration_seconds", Field(step.longest)},
              {"slowest_rank", step.slowest_rank}};
  AddPhases(step.phases, &row);
  row["bytes_sent"] = Field(step.bytes_sent);
  row["bytes_received"] = Field(step.bytes_received);
  return row;
}

std::string ToCsv(const TableRows& rows) {
  std::vector<TableColumn> columns;
  for (const auto& field : rows.front().items()) columns.push_back({field.key(), "", 0});
  return CsvTable(columns, rows);
}

}  // namespace

RunStats Describe(const LoggedRun& run) {
  RunStats stats;
  stats.name = run.name;
  stats.setup = run.setup;
  stats.ranks = static_cast<int>(run.ranks.size());
  stats.by_step = DescribeSteps(run);
  stats.steps = stats.by_step.size();
  std::vector<double> iterations;
  PhaseMeans phases;
  RunTimes times;
  Mean bytes;
  for (const RankLog& log : run.ranks) {
    const RankMeans rank = DescribeRank(log, &iterations, &phases);
    times.ranks.push_back(rank.times);
    stats.samples_per_second += rank.samples_per_second;
    for (const LogRecord& record : log.records) bytes.Add(record.bytes_sent);
  }
  stats.iteration = Describe(std::move(iterations));
  stats.phases = phases.value();
  stats.bytes_sent = bytes.value();
  stats.first_loss = FirstLoss(stats.by_step);
  stats.last_loss = FirstLoss({stats.by_step.rbegin(), stats.by_step.rend()});
  stats.bottleneck = FindBottleneck(times).sentence;
  return stats;
}

double OtherSeconds(const RunStats& run) {
  const PhaseSeconds& phases = run.phases;
  const double other = run.iteration.mean - phases.data - phases.forward - phases.backward -
                       phases.exposed_communication - phases.optimizer;
  return std::isfinite(other) ? std::max(other, 0.0) : 0;
}

std::string RunsCsv(const std::vector<RunStats>& runs) {
  TableRows rows;
  for (const RunStats& run : runs) rows.push_back(RunRow(run));
  return ToCsv(rows);
}

std::string StepsCsv(const std::vector<RunStats>& runs) {
  TableRows rows;
  for (const RunStats& run : runs) {
    for (const StepStats& step : run.by_step) rows.push_back(StepRow(run, step));
  }
  return ToCsv(rows);
}

}  // namespace gradwire
