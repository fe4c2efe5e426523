#ifndef GRADWIRE_WORKER_DATA_BATCHES_H_
#define GRADWIRE_WORKER_DATA_BATCHES_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/data/image_formatter.h"
#include "worker/data/sampler.h"

namespace gradwire {

// The samples of one rank in one step. The holder owns the tensors' memory alone.
struct Batch {
  Step step;             // counted over the whole run
  int64_t epoch = 0;     // the step's pass over the data, from 0
  int64_t padded = 0;    // number of samples that are repeats to fill up the ranks
  uint64_t digest = 0;   // DigestOfIndices of the samples that were read
  torch::Tensor images;  // (N, C, H, W), float32, normalized
  torch::Tensor labels;  // (N), int64

  int64_t size() const { return labels.size(0); }
};

// All images of a data set once, in its order and without augmentation:
//
//   for (int64_t i = 0; i < batches->count(); ++i) Evaluate(batches->Make(i));
//
// Immutable; safe to use from any thread. Uses no thread of torch.
class EvaluationBatches {
 public:
  // `batch_size`: images per batch; the last one has the remaining images.
  //   InvalidArgument  batch size below 1, or an error of ImageFormatter
  static absl::StatusOr<std::unique_ptr<const EvaluationBatches>> Create(
      std::shared_ptr<const Dataset> dataset, const ImageShape& shape, int64_t batch_size);

  int64_t count() const;
  // Returns the number of images in all batches.
  int64_t samples() const { return formatter_->dataset().size(); }

  // Returns batch 0 ≤ index < count(); its `step` is the index.
  Batch Make(int64_t index) const;

 private:
  EvaluationBatches(std::unique_ptr<const ImageFormatter> formatter, int64_t batch_size);

  const std::unique_ptr<const ImageFormatter> formatter_;
  const int64_t batch_size_;
};

struct TrainingBatchOptions {
  SamplerOptions sampler;
  int64_t batch_size = 64;  // samples per rank and step
  bool augment = true;
  uint64_t seed = 744;  // for the augmentation
};

// The batch of every (step, rank) of a run, as a pure function of the options: any process can make
// any rank's batch again, with the same bits. Steps count through the epochs. An epoch's last batch
// has the remaining samples, the same number on every rank.
//
// Safe to use from any thread. Uses no thread of torch.
class TrainingBatches {
 public:
  //   InvalidArgument  batch size below 1, or an error of Sampler or ImageFormatter
  static absl::StatusOr<std::unique_ptr<const TrainingBatches>> Create(
      std::shared_ptr<const Dataset> dataset, const ImageShape& shape,
      const TrainingBatchOptions& options);

  const Sampler& sampler() const { return sampler_; }
  int64_t steps_per_epoch() const;

  //   InvalidArgument  no such rank
  absl::StatusOr<Batch> Make(Step step, Rank rank) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;

  TrainingBatches(std::unique_ptr<const ImageFormatter> formatter, Sampler sampler,
                  const TrainingBatchOptions& options);
  Order OrderOf(int64_t epoch) const;
  void Fill(Batch& batch, Rank rank, int64_t first) const;

  const std::unique_ptr<const ImageFormatter> formatter_;
  const Sampler sampler_;
  const TrainingBatchOptions options_;

  // The latest order: a shuffle costs as much as a batch.
  mutable Mutex mutex_;
  mutable int64_t order_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  mutable Order order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_BATCHES_H_
