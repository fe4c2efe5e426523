#include "worker/data/batches.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gradwire {

absl::StatusOr<std::unique_ptr<const EvaluationBatches>> EvaluationBatches::Create(
    std::shared_ptr<const Dataset> dataset, const ImageShape& shape, int64_t batch_size) {
  if (batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch size ", batch_size, ", expected 1 or more"));
  }
  auto formatter = ImageFormatter::Create(std::move(dataset), shape);
  if (!formatter.ok()) return formatter.status();
  return absl::WrapUnique(new EvaluationBatches(*std::move(formatter), batch_size));
}

EvaluationBatches::EvaluationBatches(std::unique_ptr<const ImageFormatter> formatter,
                                     int64_t batch_size)
    : formatter_(std::move(formatter)), batch_size_(batch_size) {}

int64_t EvaluationBatches::count() const { return (samples() - 1) / batch_size_ + 1; }

Batch EvaluationBatches::Make(int64_t index) const {
  const int64_t first = index * batch_size_;
  const int64_t count = std::min(batch_size_, samples() - first);
  const ImageShape& shape = formatter_->shape();
  Batch batch;
  batch.step = Step(static_cast<uint64_t>(index));
  batch.images = torch::empty({count, shape.channels, shape.height, shape.width});
  batch.labels = torch::empty({count}, torch::kInt64);
  float* images = batch.images.data_ptr<float>();
  const uint8_t* labels = formatter_->dataset().labels.data() + first;
  std::copy_n(labels, count, batch.labels.data_ptr<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    formatter_->Write(first + i, Augmentation{}, images + i * formatter_->values_per_image());
  }
  return batch;
}

absl::StatusOr<std::unique_ptr<const TrainingBatches>> TrainingBatches::Create(
    std::shared_ptr<const Dataset> dataset, const ImageShape& shape,
    const TrainingBatchOptions& options) {
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch size ", options.batch_size, ", expected 1 or more"));
  }
  auto formatter = ImageFormatter::Create(std::move(dataset), shape);
  if (!formatter.ok()) return formatter.status();
  auto sampler = Sampler::Create((*formatter)->dataset().size(), options.sampler);
  if (!sampler.ok()) return sampler.status();
  return absl::WrapUnique(new TrainingBatches(*std::move(formatter), *sampler, options));
}

TrainingBatches::TrainingBatches(std::unique_ptr<const ImageFormatter> formatter, Sampler sampler,
                                 const TrainingBatchOptions& options)
    : formatter_(std::move(formatter)), sampler_(std::move(sampler)), options_(options) {}

int64_t TrainingBatches::steps_per_epoch() const {
  return StepsPerEpoch(sampler_, options_.batch_size);
}

absl::StatusOr<Batch> TrainingBatches::Make(Step step, Rank rank) const {
  if (absl::Status status = CheckRank(rank, options_.sampler.world_size); !status.ok()) {
    return status;
  }
  const auto [epoch, first, count] = RangeOf(sampler_, options_.batch_size, step);
  const ImageShape& shape = formatter_->shape();
  Batch batch;
  batch.step = step;
  batch.epoch = epoch;
  batch.padded = sampler_.PaddedAmong(rank, first, count);
  batch.images = torch::empty({count, shape.channels, shape.height, shape.width});
  batch.labels = torch::empty({count}, torch::kInt64);
  Fill(batch, rank, first);
  return batch;
}

void TrainingBatches::Fill(Batch& batch, Rank rank, int64_t first) const {
  const Order order = OrderOf(batch.epoch);
  float* images = batch.images.data_ptr<float>();
  int64_t* labels = batch.labels.data_ptr<int64_t>();
  std::vector<int64_t> indices;
  indices.reserve(batch.size());
  for (int64_t i = 0; i < batch.size(); ++i) {
    const int64_t sample = (*order)[sampler_.OrderIndex(rank, first + i)];
    indices.push_back(sample);
    Augmentation augmentation;
    if (options_.augment) {
      augmentation = DrawAugmentation({options_.seed, batch.epoch, batch.step, rank, i});
    }
    formatter_->Write(sample, augmentation, images + i * formatter_->values_per_image());
    labels[i] = formatter_->dataset().labels[sample];
  }
  batch.digest = DigestOfIndices(indices);
}

TrainingBatches::Order TrainingBatches::OrderOf(int64_t epoch) const {
  MutexLock lock(&mutex_);
  if (order_epoch_ != epoch) {
    order_ = std::make_shared<const std::vector<int64_t>>(sampler_.Order(epoch));
    order_epoch_ = epoch;
  }
  return order_;
}

}  // namespace gradwire
