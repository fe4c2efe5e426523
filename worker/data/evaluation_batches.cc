#include "worker/data/evaluation_batches.h"

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

}  // namespace gradwire
