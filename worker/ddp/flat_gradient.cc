#include "worker/ddp/flat_gradient.h"

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

constexpr double kFirstBucketCapBytes = 1 << 20;

}  // namespace

FlatGradient::FlatGradient(const std::vector<torch::Tensor>& parameters, double bucket_cap_bytes) {
  bool open = false;  // the last bucket accepts more
  for (size_t index = parameters.size(); index-- > 0;) {
    const torch::Tensor& parameter = parameters[index];
    if (!parameter.requires_grad() || parameter.numel() == 0) continue;
    if (!open) buckets_.push_back({0, parameters_.size(), 0});
    Range& bucket = buckets_.back();
    parameters_.push_back({parameter, index, buckets_.size() - 1, bucket.size});
    bucket.size += parameter.numel();
    ++bucket.parameters;
    const double cap =
        buckets_.size() == 1 ? std::min(bucket_cap_bytes, kFirstBucketCapBytes) : bucket_cap_bytes;
    open = 4.0 * static_cast<double>(bucket.size) < cap;
  }
  Allocate(1, /*mean=*/false);
}

// `memory_of`: the exchange's memory for a bucket.
template <typename MemoryOf>
FlatGradient::Buckets FlatGradient::Make(const MemoryOf& memory_of) const {
  Buckets made;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const Exchange::Memory memory = memory_of(Bucket(static_cast<int>(bucket)));
    made.push_back(memory.bytes.empty()
                       ? torch::zeros({buckets_[bucket].size})
                       : torch::from_blob(memory.bytes.data(), {buckets_[bucket].size},
                                          [owner = memory.owner](void*) {}));
  }
  return made;
}

void FlatGradient::Allocate(size_t ranks, bool mean, const MemoryLender& lender) {
  terms_.clear();
  mean_.clear();
  Exchange* const exchange = lender.exchange;
  for (size_t rank = 0; rank < ranks; ++rank) {
    terms_.push_back(Make([&](Bucket bucket) {
      return exchange == nullptr ? Exchange::Memory()
                                 : exchange->TermsMemory(lender.layout, bucket, lender.ranks[rank]);
    }));
  }
  if (!mean) return;
  mean_ = Make([&](Bucket bucket) {
    return exchange == nullptr || !lender.lends_mean
               ? Exchange::Memory()
               : exchange->ResultMemory(lender.layout, bucket);
  });
}

std::vector<BucketSpec> FlatGradient::Specs() const {
  std::vector<BucketSpec> specs;
  for (const Range& bucket : buckets_) {
    specs.push_back({4 * static_cast<uint64_t>(bucket.size), v1::DTYPE_FLOAT32});
  }
  return specs;
}

absl::optional<size_t> FlatGradient::BucketOf(const torch::Tensor& parameter) const {
  for (const Parameter& other : parameters_) {
    if (other.tensor.is_same(parameter)) return other.bucket;
  }
  return absl::nullopt;
}

std::vector<torch::Tensor> FlatGradient::ParametersOf(size_t bucket) const {
  std::vector<torch::Tensor> parameters;
  for (const Parameter& parameter : parameters_) {
    if (parameter.bucket == bucket) parameters.push_back(parameter.tensor);
  }
  return parameters;
}

std::vector<size_t> FlatGradient::IndicesOf(size_t bucket) const {
  std::vector<size_t> indices;
  for (const Parameter& parameter : parameters_) {
    if (parameter.bucket == bucket) indices.push_back(parameter.index);
  }
  return indices;
}

void FlatGradient::Take(size_t rank, size_t i) {
  const torch::NoGradGuard values_only;
  View(terms_[rank], i).copy_(parameters_[i].tensor.grad());
}

void FlatGradient::TakeParameters(size_t bucket) {
  const torch::NoGradGuard values_only;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].bucket == bucket) View(terms_[0], i).copy_(parameters_[i].tensor);
  }
}

void FlatGradient::Zero(size_t rank, size_t i) {
  const torch::NoGradGuard values_only;
  View(terms_[rank], i).zero_();
}

}  // namespace gradwire
