#include "worker/ddp/gradient_hooks.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// Calls a copy, because the listener may be replaced while it runs.
template <typename Function, typename... Arguments>
void Tell(Function function, const Arguments&... arguments) {
  if (function) function(arguments...);
}

}  // namespace

GradientHooks::GradientHooks(FlatGradient* gradient, bool keep_grad)
    : gradient_(gradient),
      keep_grad_(keep_grad),
      seen_(gradient->parameter_count()),
      taken_(seen_) {
  for (size_t i = 0; i < gradient->parameter_count(); ++i) Add(i);
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.node->del_post_hook(hook.key);
}

void GradientHooks::Add(size_t i) {
  using torch::autograd::variable_list;
  auto hook = [this, i](const variable_list& outputs, const variable_list&) {
    OnGradient(i);
    return outputs;
  };
  const auto node = torch::autograd::impl::grad_accumulator(gradient_->parameter(i));
  hooks_.push_back(
      {node, node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook))});
}

void GradientHooks::Begin(size_t rank, PassListener listener) {
  rank_ = rank;
  listener_ = std::move(listener);
  status_ = absl::OkStatus();
  begun_ = false;
  seen_.assign(gradient_->parameter_count(), false);
  taken_ = seen_;
  missing_.assign(gradient_->bucket_count(), 0);
  for (size_t i = 0; i < seen_.size(); ++i) ++missing_[gradient_->bucket_of(i)];
  next_ = 0;
  in_pass_ = true;
}

// After an error no more buckets are reported, because they must not be contributed.
void GradientHooks::OnGradient(size_t i) {
  if (!in_pass_) return;
  if (!std::exchange(begun_, true)) Tell(listener_.on_begin);
  if (!status_.ok()) return;
  status_ = TakeOnce(i);
  if (status_.ok()) {
    TellComplete(gradient_->bucket_of(i));
  } else {
    Tell(listener_.on_error, status_);
  }
}

absl::Status GradientHooks::TakeOnce(size_t i) {
  if (seen_[i]) {
    return absl::FailedPreconditionError(
        absl::StrCat("parameter ", gradient_->index_of(i),
                     ": got a second gradient in one pass, expected one; backward ran twice, or "
                     "within itself (as reentrant checkpoints do)"));
  }
  seen_[i] = true;
  absl::Status status = CheckGradient(i);
  if (status.ok()) Take(i);
  return status;
}

absl::Status GradientHooks::CheckGradient(size_t i) const {
  const torch::Tensor& grad = gradient_->parameter(i).grad();
  if (grad.layout() == torch::kStrided && grad.scalar_type() == torch::kFloat) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parameter ", gradient_->index_of(i), ": got a gradient that is ",
                   grad.layout() == torch::kStrided ? c10::toString(grad.scalar_type()) : "sparse",
                   ", expected a dense one of float32"));
}

void GradientHooks::Take(size_t i) {
  gradient_->Take(rank_, i);
  taken_[i] = true;
  if (!keep_grad_) gradient_->parameter(i).mutable_grad().reset();
}

void GradientHooks::TellComplete(size_t bucket) {
  --missing_[bucket];
  while (next_ < missing_.size() && missing_[next_] == 0) {
    Tell(listener_.on_bucket, next_);
    ++next_;
  }
}

absl::Status GradientHooks::End() {
  in_pass_ = false;
  for (size_t i = 0; i < seen_.size() && status_.ok(); ++i) {
    if (seen_[i]) continue;
    if (!gradient_->parameter(i).grad().defined()) {
      gradient_->Zero(rank_, i);
      continue;
    }
    status_ = CheckGradient(i);
    if (status_.ok()) Take(i);
  }
  return status_;
}

std::vector<size_t> GradientHooks::IndicesWithout(const std::vector<bool>& flags) const {
  std::vector<size_t> indices;
  for (size_t i = flags.size(); i-- > 0;) {
    if (!flags[i]) indices.push_back(gradient_->index_of(i));
  }
  return indices;
}

std::vector<size_t> GradientHooks::Unused() const { return IndicesWithout(seen_); }

std::vector<size_t> GradientHooks::WithoutGradient() const { return IndicesWithout(taken_); }

}  // namespace gradwire
