#ifndef GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
#define GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/layout.h"

namespace gradwire {

// The gradients of all parameters in one run of memory, twice:
//
//   local   what backward adds up; this rank's terms
//   mean    what came back, averaged over all ranks
//
// Parameters stand in reverse order, as backward makes them, and are cut into
// buckets of whole parameters. A step goes Start, backward with a Take for each
// parameter that it gives a gradient (repeatedly, to add up), FillMissing. Not
// thread-safe; other threads may read and write the spans of a bucket as long as
// none of its methods is called.
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

  // The same as tensors of one dimension, that share the memory.
  torch::Tensor local_tensor(size_t bucket) const;
  torch::Tensor mean_tensor(size_t bucket) const;

  // The bucket's parameters have no .grad: autograd's first one becomes it as it is,
  // which saves setting local to zero and reading it again.
  void Start(size_t bucket);
  // Autograd has added to the .grad of parameter `index` of the bucket: it is in
  // local from here on, and .grad is a view of that, so that more can be added.
  void Take(size_t bucket, size_t index);
  // Zero is the gradient of parameters that had no Take since Start.
  void FillMissing();

 private:
  struct Range {
    int64_t first = 0;  // elements
    int64_t size = 0;
    size_t first_parameter = 0;
    size_t parameters = 0;
  };
  std::vector<torch::Tensor> parameters_;  // in reverse order
  std::vector<Range> buckets_;
  torch::Tensor local_;
  torch::Tensor mean_;
  std::vector<torch::Tensor> local_views_;  // by parameter
  std::vector<char> taken_;                 // bool, by parameter, since Start
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
