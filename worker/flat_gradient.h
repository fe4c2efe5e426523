#ifndef GRADWIRE_WORKER_FLAT_GRADIENT_H_
#define GRADWIRE_WORKER_FLAT_GRADIENT_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/layout.h"

namespace gradwire {

// The gradients of all parameters in one run of memory, twice:
//
//   local   what backward adds up here; this rank's terms
//   mean    what came back, averaged over all ranks; what the optimiser reads
//
// Parameters stand in reverse order, as backward makes them, and are cut into
// buckets of whole parameters. Each .grad is a view of the one or the other; at
// first of local, which is zero. Not thread-safe; other threads may read and
// write the spans of a bucket as long as none of its methods is called.
class FlatGradient {
 public:
  // `parameters`: float32, on the CPU, contiguous; those that do not require a
  // gradient or are empty are left out. A bucket is closed when it holds `bucket_cap_bytes`
  // or more (the first one: 1 MiB or more), as DistributedDataParallel does it;
  // 0: a bucket per parameter.
  FlatGradient(const std::vector<torch::Tensor>& parameters, double bucket_cap_bytes);

  size_t bucket_count() const { return buckets_.size(); }
  std::vector<BucketSpec> Specs() const;
  // Elements of one bucket.
  absl::Span<const float> local(size_t bucket) const;
  absl::Span<float> mean(size_t bucket);

  // The parameters of one bucket, in bucket order.
  absl::Span<const torch::Tensor> parameters(size_t bucket) const;
  // The bucket that `parameter` is in; none if it was left out.
  absl::optional<size_t> BucketOf(const torch::Tensor& parameter) const;

  // Makes every .grad of the bucket a view of local, and sets local to zero.
  void StartLocal(size_t bucket);
  // Makes every .grad of the bucket a view of mean.
  void ShowMean(size_t bucket);

 private:
  struct Range {
    int64_t first = 0;  // elements
    int64_t size = 0;
    size_t first_parameter = 0;
    size_t parameters = 0;
  };
  void Show(size_t bucket, const std::vector<torch::Tensor>& views);

  std::vector<torch::Tensor> parameters_;  // in reverse order
  std::vector<Range> buckets_;
  torch::Tensor local_;
  torch::Tensor mean_;
  std::vector<torch::Tensor> local_views_;  // by parameter
  std::vector<torch::Tensor> mean_views_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_FLAT_GRADIENT_H_
