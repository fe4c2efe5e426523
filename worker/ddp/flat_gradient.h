#ifndef GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
#define GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/wire/layout.h"

namespace gradwire {

// The gradients of all parameters in one run of memory, several times:
//
//   terms   what backward gave: once for each rank that this worker carries
//   mean    what came back, averaged over all ranks
//
// Parameters stand in reverse order, as backward makes them, and are cut into buckets of
// whole parameters. Parameter i means number i of that order. Not thread-safe; other
// threads may read and write the spans of a bucket as long as no method writes them.
class FlatGradient {
 public:
  // `parameters`: float32, on the CPU; those that do not require a gradient or are
  // empty are left out. A bucket is closed when it holds `bucket_cap_bytes` or more
  // (the first one: 1 MiB or more), as DistributedDataParallel does it; 0: a bucket
  // per parameter. Has memory for the terms of one rank and for no mean.
  FlatGradient(const std::vector<torch::Tensor>& parameters, double bucket_cap_bytes);

  // Memory for the terms of `ranks` ranks and, if `mean`, for the mean; all zero.
  void Allocate(size_t ranks, bool mean);

  size_t bucket_count() const { return buckets_.size(); }
  std::vector<BucketSpec> Specs() const;

  // The parameters that are not left out.
  size_t parameter_count() const { return parameters_.size(); }
  const torch::Tensor& parameter(size_t i) const { return parameters_[i].tensor; }
  // The bucket that parameter i is in, and its index in the constructor's `parameters`.
  size_t bucket_of(size_t i) const { return parameters_[i].bucket; }
  size_t index_of(size_t i) const { return parameters_[i].index; }
  // The bucket that `parameter` is in; none if it was left out.
  absl::optional<size_t> BucketOf(const torch::Tensor& parameter) const;
  // The parameters of one bucket, in its order.
  std::vector<torch::Tensor> ParametersOf(size_t bucket) const;
  // Their indices in the constructor's `parameters`.
  std::vector<size_t> IndicesOf(size_t bucket) const;

  // One bucket of the terms of carried rank number `rank`, or of the mean: one
  // dimension, the memory is shared.
  torch::Tensor terms(size_t rank, size_t bucket) const { return Cut(terms_[rank], bucket); }
  torch::Tensor mean(size_t bucket) const { return Cut(mean_, bucket); }
  // The part of the mean that belongs to parameter number `index` of a bucket.
  torch::Tensor mean(size_t bucket, size_t index) const {
    return View(mean_, buckets_[bucket].first_parameter + index);
  }

  // The terms of parameter i become its .grad, which is there, or zero.
  void Take(size_t rank, size_t i);
  void Zero(size_t rank, size_t i);
  // The terms of the first carried rank in a bucket become the parameters themselves.
  void TakeParameters(size_t bucket);

 private:
  struct Range {
    int64_t first = 0;  // elements
    int64_t size = 0;
    size_t first_parameter = 0;
    size_t parameters = 0;
  };
  struct Parameter {
    torch::Tensor tensor;
    size_t index = 0;
    size_t bucket = 0;
    int64_t first = 0;  // element
  };
  torch::Tensor Cut(const torch::Tensor& flat, size_t bucket) const {
    return flat.narrow(0, buckets_[bucket].first, buckets_[bucket].size);
  }
  torch::Tensor View(const torch::Tensor& flat, size_t i) const {
    const torch::Tensor& like = parameters_[i].tensor;
    return flat.narrow(0, parameters_[i].first, like.numel()).view(like.sizes());
  }

  std::vector<Parameter> parameters_;  // in reverse order
  std::vector<Range> buckets_;
  int64_t elements_ = 0;
  std::vector<torch::Tensor> terms_;  // by carried rank
  torch::Tensor mean_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
