#include "worker/ddp/gradient_hooks.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <utility>

namespace gradwire {

GradientHooks::GradientHooks(FlatGradient* gradient) : gradient_(gradient) {
  for (size_t bucket = 0; bucket < gradient->bucket_count(); ++bucket) {
    const auto parameters = gradient->parameters(bucket);
    parameters_.push_back(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) Add(parameters[i], bucket, i);
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.node->del_post_hook(hook.key);
}

void GradientHooks::Add(const torch::Tensor& parameter, size_t bucket, size_t index) {
  using torch::autograd::variable_list;
  auto hook = [this, bucket, index](const variable_list& outputs, const variable_list&) {
    OnGradient(bucket, index);
    return outputs;
  };
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  hooks_.push_back(
      {node, node->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(hook))});
}

void GradientHooks::Arm(OnBucket on_bucket) {
  on_bucket_ = std::move(on_bucket);
  missing_ = parameters_;
  next_ = 0;
}

void GradientHooks::Disarm() { on_bucket_ = nullptr; }

void GradientHooks::OnGradient(size_t bucket, size_t index) {
  gradient_->Take(bucket, index);
  if (!on_bucket_) return;
  --missing_[bucket];
  while (next_ < missing_.size() && missing_[next_] == 0) on_bucket_(next_++);
}

}  // namespace gradwire
