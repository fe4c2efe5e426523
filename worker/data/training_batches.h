#ifndef GRADWIRE_WORKER_DATA_TRAINING_BATCHES_H_
#define GRADWIRE_WORKER_DATA_TRAINING_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "worker/data/batch.h"
#include "worker/data/image_formatter.h"
#include "worker/data/sampler.h"

namespace gradwire {

struct TrainingBatchOptions {
  SamplerOptions sampler;
  int64_t batch_size = 64;  // samples per rank and step
  bool augment = true;
  uint64_t seed = 744;  // of the augmentation
};

// The batch of every (step, rank) of a run, as a pure function of the options:
// any process can make any rank's batch again, with the same bits. Steps count
// through the epochs; an epoch's last batch holds what is left and may be
// smaller, by the same number on every rank.
//
// Safe to use from any thread. No thread of torch's is used.
class TrainingBatches {
 public:
  //   InvalidArgument  batch size below 1, or what Sampler and ImageFormatter refuse
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

  // The order asked for last: a shuffle costs as much as a batch.
  mutable Mutex mutex_;
  mutable int64_t order_epoch_ ABSL_GUARDED_BY(mutex_) = -1;
  mutable Order order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_TRAINING_BATCHES_H_
