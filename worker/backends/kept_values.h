#ifndef GRADWIRE_WORKER_BACKENDS_KEPT_VALUES_H_
#define GRADWIRE_WORKER_BACKENDS_KEPT_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace gradwire {

// Values that an exchange keeps from step to step, on which later results depend. A bucket has
//
//   of each rank      its accumulated errors: for the whole bucket, or for each of its matrices
//   of the mean       its accumulated error, at the worker that folds these elements
//   of all workers    what is equal on them, for a tensor of the bucket
struct KeptValues {
  std::string kind;           // a word of lower-case letters
  absl::optional<Rank> rank;  // none: of no rank
  Bucket bucket;
  uint64_t first = 0;  // the element of the bucket at which they begin
  // Empty: one value for each element of the bucket from `first` on. Else the shape of values that
  // all workers have in common, which belong to the tensor that begins at `first`.
  std::vector<int64_t> shape;
  absl::Span<float> values;  // memory of the exchange
};

// Returns those of the mean.
inline KeptValues KeptOfMean(Bucket bucket, uint64_t first, absl::Span<float> values) {
  return {"mean", absl::nullopt, bucket, first, {}, values};
}

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_KEPT_VALUES_H_
