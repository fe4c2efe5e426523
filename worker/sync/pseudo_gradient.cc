#include "worker/sync/pseudo_gradient.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/ddp/flat_gradient.h"

namespace gradwire {
namespace {

OptimizerKind Sgd(double momentum) {
  OptimizerOptions options;
  options.momentum = momentum;
  options.weight_decay = 0;
  options.nesterov = momentum > 0;  // torch requires momentum for it
  return *FindOptimizer(options);
}

torch::Tensor Flat(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> flat;
  for (const torch::Tensor& tensor : tensors) flat.push_back(tensor.detach().view({-1}));
  return torch::cat(flat);
}

// Calls `use(tensor, part of flat, in its shape)` for each of `tensors`, whose data are one after
// the other in `flat`.
template <typename Use>
void ForEach(const std::vector<torch::Tensor>& tensors, const torch::Tensor& flat, Use use) {
  const torch::NoGradGuard values_only;
  int64_t first = 0;
  for (torch::Tensor tensor : tensors) {
    use(tensor, flat.narrow(0, first, tensor.numel()).view(tensor.sizes()));
    first += tensor.numel();
  }
}

}  // namespace

PseudoGradient::OfBucket PseudoGradient::Make(std::vector<torch::Tensor> tensors, size_t ranks,
                                              const OuterStep& outer) {
  const torch::Tensor anchor = Flat(tensors);
  std::vector<torch::Tensor> pseudo_gradients;
  for (size_t rank = 0; rank < ranks; ++rank) pseudo_gradients.push_back(torch::zeros_like(anchor));
  return {std::move(tensors),        anchor,   std::move(pseudo_gradients),
          torch::zeros_like(anchor), outer.lr, SlicedOptimizer({anchor}, Sgd(outer.momentum))};
}

PseudoGradient::PseudoGradient(std::vector<std::vector<torch::Tensor>> tensors, bool buffers,
                               size_t ranks, const OuterStep& outer) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool plain = buffers && i + 1 == tensors.size();
    buckets_.push_back(Make(std::move(tensors[i]), ranks, plain ? OuterStep() : outer));
  }
}

std::vector<BucketSpec> PseudoGradient::Specs() const {
  std::vector<BucketSpec> specs;
  for (const OfBucket& bucket : buckets_) {
    specs.push_back({bucket.anchor.nbytes(), v1::DTYPE_FLOAT32});
  }
  return specs;
}

absl::Span<uint8_t> PseudoGradient::pseudo_gradient(size_t bucket, size_t rank) {
  return BytesOf(buckets_[bucket].pseudo_gradients[rank]);
}

absl::Span<uint8_t> PseudoGradient::mean(size_t bucket) { return BytesOf(buckets_[bucket].mean); }

void PseudoGradient::Measure(size_t bucket, size_t rank) {
  OfBucket& one = buckets_[bucket];
  one.pseudo_gradients[rank].copy_(one.anchor);
  ForEach(one.tensors, one.pseudo_gradients[rank],
          [](const torch::Tensor& tensor, torch::Tensor pseudo_gradient) {
            pseudo_gradient.sub_(tensor);
          });
}

void PseudoGradient::Step(size_t bucket) {
  OfBucket& one = buckets_[bucket];
  const torch::Tensor before = one.anchor.clone();
  one.outer.Step(one.mean, one.lr);
  torch::sub_out(one.mean, one.anchor, before);
}

void PseudoGradient::Reset(size_t bucket) {
  OfBucket& one = buckets_[bucket];
  ForEach(one.tensors, one.anchor,
          [](torch::Tensor tensor, const torch::Tensor& anchor) { tensor.copy_(anchor); });
}

// The rank's model at Measure is the old anchor − pseudo_gradient.
void PseudoGradient::Correct(size_t bucket, size_t rank) {
  OfBucket& one = buckets_[bucket];
  one.pseudo_gradients[rank].add_(one.mean);
  ForEach(one.tensors, one.pseudo_gradients[rank],
          [](torch::Tensor tensor, const torch::Tensor& change) { tensor.add_(change); });
}

PseudoGradient::State PseudoGradient::Capture() const {
  State state;
  for (const OfBucket& bucket : buckets_) {
    state.anchors.push_back(bucket.anchor.clone());
    state.momenta.push_back(bucket.outer.State());
  }
  return state;
}

absl::Status PseudoGradient::CheckState(const State& state) const {
  std::string got, expected;
  for (const torch::Tensor& anchor : state.anchors) absl::StrAppend(&got, " ", anchor.numel());
  for (const OfBucket& bucket : buckets_) absl::StrAppend(&expected, " ", bucket.anchor.numel());
  if (got == expected && state.momenta.size() == buckets_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state of an outer step: got buckets of", got, " elements, expected", expected));
}

absl::Status PseudoGradient::Restore(const State& state) {
  if (absl::Status fits = CheckState(state); !fits.ok()) return fits;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    absl::Status status = buckets_[i].outer.SetState(state.momenta[i]);
    if (!status.ok()) return status;
    buckets_[i].anchor.copy_(state.anchors[i]);
  }
  return absl::OkStatus();
}

}  // namespace gradwire
