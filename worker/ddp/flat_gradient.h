#ifndef GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
#define GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// The memory of a tensor, which must be contiguous and on the CPU.
inline absl::Span<uint8_t> BytesOf(const torch::Tensor& tensor) {
  return {static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes()};
}

// The exchange whose memory a FlatGradient takes, if it offers some.
struct MemoryLender {
  Exchange* exchange = nullptr;  // null: the process's own memory
  LayoutId layout;
  std::vector<Rank> ranks;  // carried, in order
  bool lends_mean = false;  // the mean is only read
};

// The gradients of all parameters, several times, with each bucket in contiguous memory:
//
//   terms   the gradients of backward: once for each carried rank
//   mean    the result, averaged over all ranks
//
// The memory is the exchange's, if it offers some (see Exchange::Memory), so that it copies
// nothing. Parameters are in reverse order, as backward computes them, and are cut into buckets of
// whole parameters. Parameter i means index i in that order. Not thread-safe; other threads may
// read and write the spans of a bucket as long as no method writes them.
class FlatGradient {
 public:
  // `parameters`: float32, on the CPU; leaves out those that do not require a gradient or are
  // empty. A bucket is complete when it holds `bucket_cap_bytes` or more (the first one: 1 MiB or
  // more), as in DistributedDataParallel; 0: a bucket for each parameter. Allocates the terms of
  // one rank and no mean.
  FlatGradient(const std::vector<torch::Tensor>& parameters, double bucket_cap_bytes);

  // Allocates the terms of `ranks` ranks and, if `mean`, the mean; all zero.
  void Allocate(size_t ranks, bool mean, const MemoryLender& lender = {});

  size_t bucket_count() const { return buckets_.size(); }
  std::vector<BucketSpec> Specs() const;

  // The number of parameters that are not left out.
  size_t parameter_count() const { return parameters_.size(); }
  const torch::Tensor& parameter(size_t i) const { return parameters_[i].tensor; }
  // Return the bucket of parameter i, and its index in the constructor's `parameters`.
  size_t bucket_of(size_t i) const { return parameters_[i].bucket; }
  size_t index_of(size_t i) const { return parameters_[i].index; }
  // Returns the bucket of `parameter`; none if it was left out.
  absl::optional<size_t> BucketOf(const torch::Tensor& parameter) const;
  // Returns the parameters of a bucket, in its order.
  std::vector<torch::Tensor> ParametersOf(size_t bucket) const;
  // Returns their indices in the constructor's `parameters`.
  std::vector<size_t> IndicesOf(size_t bucket) const;

  // Return a bucket of the terms of carried rank `rank`, or of the mean, in one dimension; the
  // memory is shared.
  torch::Tensor terms(size_t rank, size_t bucket) const { return terms_[rank][bucket]; }
  torch::Tensor mean(size_t bucket) const { return mean_[bucket]; }
  // Returns the part of the mean for parameter `index` of a bucket.
  torch::Tensor mean(size_t bucket, size_t index) const {
    return View(mean_, buckets_[bucket].first_parameter + index);
  }

  // Set the terms of parameter i to its .grad, which must exist, or to zero.
  void Take(size_t rank, size_t i);
  void Zero(size_t rank, size_t i);
  // Sets the parameters of a bucket to the terms of the first carried rank.
  void TakeParameters(size_t bucket);

 private:
  struct Range {
    int64_t size = 0;  // elements
    size_t first_parameter = 0;
    size_t parameters = 0;
  };
  struct Parameter {
    torch::Tensor tensor;
    size_t index = 0;
    size_t bucket = 0;
    int64_t first = 0;  // element of the bucket
  };
  using Buckets = std::vector<torch::Tensor>;  // of one dimension

  template <typename MemoryOf>
  Buckets Make(const MemoryOf& memory_of) const;
  torch::Tensor View(const Buckets& flat, size_t i) const {
    const Parameter& parameter = parameters_[i];
    const torch::Tensor& like = parameter.tensor;
    return flat[parameter.bucket].narrow(0, parameter.first, like.numel()).view(like.sizes());
  }

  std::vector<Parameter> parameters_;  // in reverse order
  std::vector<Range> buckets_;
  std::vector<Buckets> terms_;  // by carried rank
  Buckets mean_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_FLAT_GRADIENT_H_
