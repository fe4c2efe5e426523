#ifndef GRADWIRE_WORKER_DATA_EVALUATION_BATCHES_H_
#define GRADWIRE_WORKER_DATA_EVALUATION_BATCHES_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/data/image_formatter.h"

namespace gradwire {

// All images of a data set once, in its own order and without augmentation:
//
//   for (int64_t i = 0; i < batches->count(); ++i) Evaluate(batches->Make(i));
//
// Immutable; safe to use from any thread. No thread of torch's is used.
class EvaluationBatches {
 public:
  // `batch_size`: images a batch; the last one holds what is left.
  //   InvalidArgument  batch size below 1, or what ImageFormatter refuses
  static absl::StatusOr<std::unique_ptr<const EvaluationBatches>> Create(
      std::shared_ptr<const Dataset> dataset, const ImageShape& shape, int64_t batch_size);

  // Number of batches.
  int64_t count() const;
  // Number of images in all of them.
  int64_t samples() const { return formatter_->dataset().size(); }

  // Batch 0 ≤ index < count(); its `step` is the index.
  Batch Make(int64_t index) const;

 private:
  EvaluationBatches(std::unique_ptr<const ImageFormatter> formatter, int64_t batch_size);

  const std::unique_ptr<const ImageFormatter> formatter_;
  const int64_t batch_size_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DATA_EVALUATION_BATCHES_H_
