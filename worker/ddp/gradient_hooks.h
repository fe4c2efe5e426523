#ifndef GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_
#define GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/ddp/flat_gradient.h"

namespace gradwire {

// Callbacks within a backward pass; each may be empty. They may begin another pass, and must then
// throw.
struct PassListener {
  // Before the first gradient of the pass is taken.
  std::function<void()> on_begin = nullptr;
  // The terms of a bucket are complete. Called in the order of the buckets: for bucket i only after
  // i - 1. Not called for buckets that backward did not complete, because a parameter got no
  // gradient, nor for the buckets after them.
  std::function<void(size_t bucket)> on_bucket = nullptr;
  // The first error of the pass, which EndPass also returns; no on_bucket after it.
  std::function<void(const absl::Status& error)> on_error = nullptr;
};

// Copies the gradients of a backward pass to the terms of a FlatGradient, and reports complete
// buckets.
//
// For each parameter, autograd has a node that adds to its .grad, once in a backward pass. This
// object keeps those nodes alive and adds a hook to each. Outside of a pass the hooks do nothing.
// Not thread-safe: backward on the CPU runs on the calling thread.
class GradientHooks {
 public:
  // `gradient` must outlive this object. `keep_grad`: keep a parameter's .grad after copying it to
  // the terms; else remove it.
  GradientHooks(FlatGradient* gradient, bool keep_grad);
  // Removes the hooks.
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // The next backward pass computes the terms of carried rank `rank`.
  void Begin(size_t rank, PassListener listener);
  // Ends the pass. Terms of parameters without a gradient in the pass become their .grad from
  // earlier passes, or zero. See Reducer::EndPass for errors.
  absl::Status End();
  // Ends the pass without that.
  void Cancel() { in_pass_ = false; }

  // Returns the indices (see FlatGradient::index_of) of parameters without a gradient in the pass,
  // ascending.
  std::vector<size_t> Unused() const;
  // After End: returns those of them without one from earlier passes, too, so that their terms are
  // zero.
  std::vector<size_t> WithoutGradient() const;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;
    uintptr_t key;
  };
  void Add(size_t i);
  void OnGradient(size_t i);
  absl::Status TakeOnce(size_t i);
  void Take(size_t i);
  void TellComplete(size_t bucket);
  absl::Status CheckGradient(size_t i) const;
  std::vector<size_t> IndicesWithout(const std::vector<bool>& flags) const;

  FlatGradient* const gradient_;
  const bool keep_grad_;
  std::vector<Hook> hooks_;

  // State of the current pass:
  bool in_pass_ = false;
  size_t rank_ = 0;
  PassListener listener_;
  absl::Status status_;          // its first error
  bool begun_ = false;           // a gradient has arrived
  std::vector<bool> seen_;       // by parameter: its gradient has arrived
  std::vector<bool> taken_;      // by parameter: it had a gradient in this pass or earlier ones
  std::vector<size_t> missing_;  // by bucket: number of parameters without their gradient
  size_t next_ = 0;              // first bucket that was not reported
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_
