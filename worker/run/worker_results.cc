// The part of Worker that writes weights and summaries at the end of a run.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "worker/ddp/model_layout.h"
#include "worker/models/prepare.h"
#include "worker/run/worker.h"
#include "worker/weights/weights.h"

namespace gradwire {
namespace {

int64_t CountTrained(const Model& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) count += parameter.numel();
  }
  return count;
}

}  // namespace

void Worker::NoteEarlierSummaries() {
  if (options_.summary.empty()) return;
  for (int rank = 0; rank < view_.world_size; ++rank) {
    earlier_summaries_.push_back(MarkOf(SummaryPath(Rank(rank))));
  }
}

bool Worker::IsOfThisRun(const std::string& path, Rank rank) const {
  const absl::optional<FileMark> now = MarkOf(path);
  return now.has_value() && !(now == earlier_summaries_[static_cast<size_t>(rank.value())]);
}

std::string Worker::HashOfFrozen() const {
  const std::vector<torch::Tensor> frozen = FrozenTensors(*model_);
  return frozen.empty() ? "" : Sha256(frozen);
}

// Closes the last epoch first, so that the summary includes it and comes after it if both go to one
// stream. Train reports a log that could not be written. Writes summaries even if the weights
// cannot be saved.
absl::Status Worker::WriteResults() {
  reporter_->Finish().IgnoreError();
  absl::Status written = SaveWeights();
  if (!options_.summary.empty()) written.Update(WriteSummaries());
  return written;
}

// With rank 0's buffers.
absl::Status Worker::SaveWeights() {
  if (options_.save_weights.empty() || ranks_.front() != Rank(0)) return absl::OkStatus();
  trainer_->reducer().BeginForward(Rank(0));
  return WriteWeights(options_.save_weights, WeightsOf(*model_));
}

// For a rank that it took over it does not replace its own file, even without {rank} in the name.
std::string Worker::SummaryPath(Rank rank) const {
  const std::string path = PathOfRank(options_.summary, rank);
  const bool own = std::find(first_ranks_.begin(), first_ranks_.end(), rank) != first_ranks_.end();
  return own || path != options_.summary || OwnDescriptor(path).has_value()
             ? path
             : absl::StrCat(path, ".rank", rank.value());
}

// The folder of a rank that it took over may be on another host; that must not cost the others.
absl::Status Worker::WriteSummaries() {
  absl::Status written;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Summary summary = reporter_->SummaryOf(i);
    if (trainer_ != nullptr) trainer_->reducer().BeginForward(ranks_[i]);
    summary.trained_parameters = options_.inference.empty() ? CountTrained(*model_) : 0;
    summary.frozen_sha256 = {frozen_sha256_, HashOfFrozen()};
    summary.outputs_sha256 = outputs_sha256_;
    if (devices_ != nullptr) {
      summary.barrier_seconds = absl::ToDoubleSeconds(devices_->mean_barrier());
    }
    summary.parameters_sha256 = Sha256(model_->parameters());
    summary.buffers_sha256 = Sha256(model_->buffers());
    if (!options_.broadcast_buffers) summary.buffers = FloatsInBase64(model_->buffers());
    written.Update(WriteSummary(SummaryPath(ranks_[i]), summary));
  }
  return written;
}

void Worker::SummarizeEnd(const absl::Status& reason, int exit_code) {
  MutexLock ending(&end_mutex_);
  if (std::exchange(end_summarized_, true) || reason.ok() || options_.summary.empty()) return;
  const StepReporter* reporter;
  {
    MutexLock lock(&mutex_);
    reporter = shown_reporter_;
  }
  if (reporter == nullptr) return;  // the run had not begun
  for (Summary& summary : reporter->Summaries()) {
    const std::string path = SummaryPath(Rank(summary.rank));
    if (IsOfThisRun(path, Rank(summary.rank))) continue;
    summary.ended = Summary::Ended{exit_code, std::string(reason.message())};
    const absl::Status written = WriteSummary(path, summary);
    if (!written.ok()) spdlog::warn("{}", std::string(written.message()));
  }
}

}  // namespace gradwire
