#ifndef GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_
#define GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/ddp/flat_gradient.h"

namespace gradwire {

// Puts the gradients that backward makes into a FlatGradient, and tells, from inside
// backward, which buckets are complete.
//
// Autograd has one node for each parameter that adds to its .grad, once in a
// backward pass; this object keeps those nodes alive and hangs a hook on each.
// Not thread-safe: backward on the CPU runs on the thread that calls it.
class GradientHooks {
 public:
  // Hears of buckets in their order: of bucket i only after i - 1.
  using OnBucket = std::function<void(size_t bucket)>;

  // `gradient` outlives this object.
  explicit GradientHooks(FlatGradient* gradient);
  // Takes the hooks away.
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // The next backward pass is the step's last: `on_bucket` hears of each bucket
  // as soon as all its parameters, and those of all buckets before, have their gradients.
  void Arm(OnBucket on_bucket);
  // Nobody hears of backward passes from here on (nor before Arm).
  void Disarm();

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;
    uintptr_t key;
  };
  void Add(const torch::Tensor& parameter, size_t bucket, size_t index);
  void OnGradient(size_t bucket, size_t index);

  FlatGradient* const gradient_;
  std::vector<size_t> parameters_;  // by bucket: how many
  std::vector<Hook> hooks_;
  OnBucket on_bucket_;           // empty unless armed
  std::vector<size_t> missing_;  // by bucket: parameters without their gradient
  size_t next_ = 0;              // first bucket that was not told of
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_
