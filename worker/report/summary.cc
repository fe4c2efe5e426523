#include "worker/report/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "common/base/output_file.h"
#include "worker/report/progress_format.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// `sorted` is not empty; 0 ≤ fraction ≤ 1.
double Percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - std::floor(position)) * (sorted[above] - sorted[below]);
}

Json Configuration(const Summary& summary) {
  Json json = {{"rank", summary.rank},
               {"world_size", summary.world_size},
               {"sync", summary.sync},
               {"backend", summary.backend},
               {"wire", summary.wire},
               {"compress", summary.compress},
               {"model", summary.model},
               {"dataset", summary.dataset},
               {"batch_size", summary.batch_size},
               {"accumulate", summary.accumulate},
               {"iterations", summary.iterations}};
  if (!summary.in_memory.empty()) json["in_memory"] = summary.in_memory;
  if (summary.first_step > 0) json["first_step"] = summary.first_step;
  if (summary.emulated.has_value()) {
    json["emulated"] = {{"forward_seconds", summary.emulated->forward_seconds},
                        {"backward_seconds", summary.emulated->backward_seconds}};
  }
  if (summary.ended.has_value()) {
    json["ended"] = {{"code", summary.ended->code}, {"reason", summary.ended->reason}};
  }
  return json;
}

Json IterationJson(const IterationSeconds& seconds) {
  return {{"mean", seconds.mean}, {"p50", seconds.p50}, {"p90", seconds.p90}, {"p99", seconds.p99}};
}

// A single time says nothing about chance.
Json OwnWorkJson(const MeanEstimate& seconds) {
  return {{"mean", seconds.count() > 0 ? seconds.mean() : kUnmeasured},
          {"standard_error", seconds.count() > 1 ? std::sqrt(seconds.variance()) : kUnmeasured}};
}

// Moves `key` of `figures`, if it exists, to the end of `json`.
void Take(const char* key, Json& figures, Json& json) {
  const auto found = figures.find(key);
  if (found == figures.end()) return;
  json[key] = *found;
  figures.erase(found);
}

void AddMeasurements(const Summary& summary, Json& figures, Json& json) {
  json["iteration_seconds"] = IterationJson(summary.iteration_seconds);
  json["phase_seconds"] = PhaseJson(summary.phase_seconds);
  json["own_work_seconds"] = OwnWorkJson(summary.own_work_seconds);
  json["ranks_of_worker"] = {{"mean", summary.mean_ranks_of_worker},
                             {"last", summary.ranks_of_worker}};
  json["bytes_sent"] = summary.bytes_sent;
  json["bytes_received"] = summary.bytes_received;
  Take("peak_memory_bytes", figures, json);
  Take("staleness", figures, json);
  if (summary.barrier_seconds.has_value()) json["barrier_seconds"] = *summary.barrier_seconds;
  if (summary.compression_ratio.has_value()) json["compression_ratio"] = *summary.compression_ratio;
  Take("residual_norm", figures, json);
}

Json EpochsJson(const std::vector<EpochRow>& epochs) {
  Json rows = Json::array();
  for (const EpochRow& row : epochs) rows.push_back(EpochJson(row));
  return rows;
}

Json FailuresJson(const Summary::Failures& failures, const Json& skipped_steps) {
  Json recoveries = Json::array();
  for (const Recovery& recovery : failures.recoveries) recoveries.push_back(RecoveryJson(recovery));
  return {{"views", failures.views},
          {"losses", failures.losses},
          {"retries", failures.retries},
          {"recomputed_ranks", failures.recomputed_ranks},
          {"skipped_steps", skipped_steps},
          {"seconds_lost", absl::ToDoubleSeconds(failures.lost.total())},
          {"seconds_lost_by_phase", PhasesOf(failures.lost)},
          {"recoveries", std::move(recoveries)}};
}

void AddModel(const Summary& summary, Json& json) {
  json["trained_parameters"] = summary.trained_parameters;
  if (!summary.frozen_sha256.first.empty()) {
    json["frozen_sha256"] = {{"first", summary.frozen_sha256.first},
                             {"last", summary.frozen_sha256.last}};
  }
  if (!summary.outputs_sha256.empty()) json["outputs_sha256"] = summary.outputs_sha256;
  json["parameters_sha256"] = summary.parameters_sha256;
  json["buffers_sha256"] = summary.buffers_sha256;
  if (!summary.buffers.empty()) json["buffers"] = summary.buffers;
}

void AddResults(const Summary& summary, Json& figures, Json& json) {
  json["loss"] = {{"first", summary.loss.first}, {"last", summary.loss.last}};
  json["print_every"] = summary.print_every;
  json["losses"] = summary.losses;
  json["train"] = QualityJson(summary.train);
  if (summary.test.has_value()) json["test"] = QualityJson(*summary.test);
  json["epochs"] = EpochsJson(summary.epochs);
  if (!summary.ended.has_value()) AddModel(summary, json);
  Take("samples", figures, json);
  json["failures"] = FailuresJson(summary.failures, figures["failures"]["skipped_steps"]);
  figures.erase("failures");
}

}  // namespace

void SummaryCollector::Add(const StepRecord& record, size_t ranks_of_worker) {
  if (iterations_ == 0) {
    first_loss_ = record.loss;
  } else {
    AddTimes(record, ranks_of_worker);
  }
  ++iterations_;
  bytes_sent_ += record.bytes_sent;
  bytes_received_ += record.bytes_received;
  last_loss_ = record.loss;
  if (IsPrinted(record.step.value(), print_every_)) losses_.push_back(record.loss);
  figures_.Add(record);
}

void SummaryCollector::AddTimes(const StepRecord& record, size_t ranks_of_worker) {
  ranks_of_worker_ += ranks_of_worker;
  iteration_seconds_.push_back(absl::ToDoubleSeconds(record.iteration));
  sums_ += record.phases;
  own_work_.Add(absl::ToDoubleSeconds(OwnWork(record)));
}

PhaseSeconds SummaryCollector::MeanPhases() const {
  PhaseSeconds mean = ToSeconds(sums_);
  const double count = static_cast<double>(iteration_seconds_.size());
  for (const PhaseInfo& info : kPhases) {
    mean[info.phase] = count == 0 ? kUnmeasured : mean[info.phase] / count;
  }
  return mean;
}

void SummaryCollector::Fill(Summary& summary) const {
  summary.iterations = iterations_;
  summary.iteration_seconds = Describe(iteration_seconds_);
  summary.phase_seconds = MeanPhases();
  summary.own_work_seconds = own_work_;
  if (!iteration_seconds_.empty()) {
    summary.mean_ranks_of_worker =
        static_cast<double>(ranks_of_worker_) / static_cast<double>(iteration_seconds_.size());
  }
  summary.bytes_sent = bytes_sent_;
  summary.bytes_received = bytes_received_;
  summary.loss.first = first_loss_;
  summary.loss.last = last_loss_;
  summary.print_every = print_every_;
  summary.losses = losses_;
  summary.figures = figures_;
}

IterationSeconds Describe(std::vector<double> seconds) {
  IterationSeconds described;
  if (seconds.empty()) return described;
  std::sort(seconds.begin(), seconds.end());
  described.mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  described.p50 = Percentile(seconds, 0.5);
  described.p90 = Percentile(seconds, 0.9);
  described.p99 = Percentile(seconds, 0.99);
  return described;
}

std::string ToJson(const Summary& summary) {
  Json json = Configuration(summary);
  Json figures = summary.figures.ToJson();
  AddMeasurements(summary, figures, json);
  AddResults(summary, figures, json);
  json.update(figures);
  // A name that is not UTF-8 must not cost the summary.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteSummary(absl::string_view path, const Summary& summary) {
  return ReplaceFile(path, ToJson(summary));
}

}  // namespace gradwire
