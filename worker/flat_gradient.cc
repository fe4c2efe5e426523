#include "worker/flat_gradient.h"

#include <algorithm>

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
    if (it->requires_grad()) parameters_.push_back(*it);
  }
  Range bucket;
  for (const torch::Tensor& parameter : parameters_) {
    bucket.size += parameter.numel();
    const double cap =
        buckets_.empty() ? std::min(bucket_cap_bytes, kFirstBucketCapBytes) : bucket_cap_bytes;
    if (4.0 * static_cast<double>(bucket.size) < cap) continue;
    buckets_.push_back(bucket);
    bucket = {bucket.first + bucket.size, 0};
  }
  if (bucket.size > 0) buckets_.push_back(bucket);
  local_ = torch::zeros({bucket.first + bucket.size});
  mean_ = torch::zeros({bucket.first + bucket.size});
  local_views_ = ViewsOf(local_, parameters_);
  mean_views_ = ViewsOf(mean_, parameters_);
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

void FlatGradient::Show(const std::vector<torch::Tensor>& views) {
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = views[i];
}

void FlatGradient::StartLocal() {
  local_.zero_();
  Show(local_views_);
}

void FlatGradient::ShowMean() { Show(mean_views_); }

}  // namespace gradwire
