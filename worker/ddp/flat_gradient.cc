#include "worker/ddp/flat_gradient.h"

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

constexpr double kFirstBucketCapBytes = 1 << 20;

std::vector<torch::Tensor> ViewsOf(const torch::Tensor& flat,
                                   const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> views;
  int64_t first = 0;
  for (const torch::Tensor& parameter : parameters) {
    views.push_back(flat.narrow(0, first, parameter.numel()).view(parameter.sizes()));
    first += parameter.numel();
  }
  return views;
}

}  // namespace

FlatGradient::FlatGradient(const std::vector<torch::Tensor>& parameters, double bucket_cap_bytes) {
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    if (it->requires_grad() && it->numel() > 0) parameters_.push_back(*it);
  }
  Range bucket;
  for (const torch::Tensor& parameter : parameters_) {
    bucket.size += parameter.numel();
    ++bucket.parameters;
    const double cap =
        buckets_.empty() ? std::min(bucket_cap_bytes, kFirstBucketCapBytes) : bucket_cap_bytes;
    if (4.0 * static_cast<double>(bucket.size) < cap) continue;
    buckets_.push_back(bucket);
    bucket = {bucket.first + bucket.size, 0, bucket.first_parameter + bucket.parameters, 0};
  }
  if (bucket.parameters > 0) buckets_.push_back(bucket);
  local_ = torch::zeros({bucket.first + bucket.size});
  mean_ = torch::zeros({bucket.first + bucket.size});
  local_views_ = ViewsOf(local_, parameters_);
  taken_.resize(parameters_.size());
  for (size_t i = 0; i < bucket_count(); ++i) Start(i);
}

std::vector<BucketSpec> FlatGradient::Specs() const {
  std::vector<BucketSpec> specs;
  for (const Range& bucket : buckets_) {
    specs.push_back({4 * static_cast<uint64_t>(bucket.size), v1::DTYPE_FLOAT32});
  }
  return specs;
}

absl::Span<const float> FlatGradient::local(size_t bucket) const {
  const Range& range = buckets_[bucket];
  return {local_.data_ptr<float>() + range.first, static_cast<size_t>(range.size)};
}

absl::Span<float> FlatGradient::mean(size_t bucket) {
  const Range& range = buckets_[bucket];
  return {mean_.data_ptr<float>() + range.first, static_cast<size_t>(range.size)};
}

absl::Span<const torch::Tensor> FlatGradient::parameters(size_t bucket) const {
  const Range& range = buckets_[bucket];
  return absl::MakeConstSpan(parameters_).subspan(range.first_parameter, range.parameters);
}

absl::optional<size_t> FlatGradient::BucketOf(const torch::Tensor& parameter) const {
  for (size_t bucket = 0; bucket < bucket_count(); ++bucket) {
    for (const torch::Tensor& other : parameters(bucket)) {
      if (other.is_same(parameter)) return bucket;
    }
  }
  return absl::nullopt;
}

torch::Tensor FlatGradient::local_tensor(size_t bucket) const {
  return local_.narrow(0, buckets_[bucket].first, buckets_[bucket].size);
}

torch::Tensor FlatGradient::mean_tensor(size_t bucket) const {
  return mean_.narrow(0, buckets_[bucket].first, buckets_[bucket].size);
}

void FlatGradient::Start(size_t bucket) {
  const Range& range = buckets_[bucket];
  for (size_t i = range.first_parameter; i < range.first_parameter + range.parameters; ++i) {
    parameters_[i].mutable_grad().reset();
    taken_[i] = false;
  }
}

void FlatGradient::Take(size_t bucket, size_t index) {
  const size_t i = buckets_[bucket].first_parameter + index;
  if (std::exchange(taken_[i], true)) return;  // was added to local itself
  const torch::NoGradGuard values_only;
  local_views_[i].copy_(parameters_[i].grad());
  parameters_[i].mutable_grad() = local_views_[i];
}

void FlatGradient::FillMissing() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!taken_[i]) local_views_[i].zero_();
  }
}

}  // namespace gradwire
