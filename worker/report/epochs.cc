#include "worker/report/epochs.h"

#include <utility>

namespace gradwire {

absl::optional<EpochRow> EpochCollector::Add(const StepRecord& record) {
  absl::optional<EpochRow> before;
  if (open_.has_value() && open_->epoch != record.epoch) before = Finish();
  test_.reset();
  if (!open_.has_value()) {
    open_.emplace();
    open_->epoch = record.epoch;
    loss_ = 0;
    correct_ = samples_ = 0;
  }
  ++open_->iterations;
  open_->seconds += absl::ToDoubleSeconds(record.iteration);
  open_->seconds_without_loading +=
      absl::ToDoubleSeconds(record.iteration - record.phases[Phase::kData]);
  open_->lr = record.lr;
  loss_ += record.loss * static_cast<double>(record.samples);
  correct_ += record.correct;
  samples_ += record.samples;
  const auto samples = static_cast<double>(samples_);
  open_->train = {loss_ / samples, static_cast<double>(correct_) / samples};
  return before;
}

void EpochCollector::SetTest(const Quality& test) {
  test_ = test;
  if (open_.has_value()) open_->test = test;
}

absl::optional<EpochRow> EpochCollector::Finish() {
  if (open_.has_value()) closed_.push_back(*open_);
  return std::exchange(open_, absl::nullopt);
}

nlohmann::ordered_json QualityJson(const Quality& quality) {
  return {{"loss", quality.loss}, {"accuracy", quality.accuracy}};
}

nlohmann::ordered_json EpochJson(const EpochRow& row) {
  nlohmann::ordered_json json = {{"epoch", row.epoch},
                                 {"iterations", row.iterations},
                                 {"seconds", row.seconds},
                                 {"seconds_without_loading", row.seconds_without_loading},
                                 {"loss", row.train.loss},
                                 {"accuracy", row.train.accuracy},
                                 {"lr", row.lr}};
  if (row.test.has_value()) json["test"] = QualityJson(*row.test);
  return json;
}

std::vector<EpochRow> EpochCollector::rows() const {
  std::vector<EpochRow> rows = closed_;
  if (open_.has_value()) rows.push_back(*open_);
  return rows;
}

}  // namespace gradwire
