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

// What is told of a backward pass, from inside it; each may be empty. They may begin a pass
// anew, and throw then.
struct PassListener {
  // Before the first gradient of the pass is taken.
  std::function<void()> on_begin = nullptr;
  // The terms of a bucket are complete. In the order of the buckets: of bucket i only
  // after i - 1. Left out for those that backward did not complete, because it gave a
  // parameter no gradient, and those behind them.
  std::function<void(size_t bucket)> on_bucket = nullptr;
  // The pass's first error, which EndPass returns too; nobody hears of buckets after it.
  std::function<void(const absl::Status& error)> on_error = nullptr;
};

// Puts the gradients that a backward pass makes into the terms of a FlatGradient, and tells
// which buckets are complete.
//
// Autograd has one node for each parameter that adds to its .grad, once in a backward
// pass; this object keeps those nodes alive and hangs a hook on each. Outside of a pass
// the hooks do nothing. Not thread-safe: backward on the CPU runs on the thread that
// calls it.
class GradientHooks {
 public:
  // `gradient` outlives this object. `keep_grad`: a parameter's .grad stays when its value
  // is in the terms; else it is taken away.
  GradientHooks(FlatGradient* gradient, bool keep_grad);
  // Takes the hooks away.
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // The next backward pass makes the terms of carried rank number `rank`.
  void Begin(size_t rank, PassListener listener);
  // Terms of parameters that the pass gave no gradient become what their .grad has from
  // passes before, or zero. Ends the pass. See Reducer::EndPass for errors.
  absl::Status End();
  // Ends the pass as it is.
  void Cancel() { in_pass_ = false; }

  // Indices (see FlatGradient::index_of) of parameters that got no gradient in the pass,
  // ascending.
  std::vector<size_t> Unused() const;
  // After End: those of them that had none of passes before either, so that their terms are zero.
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

  // Of the pass:
  bool in_pass_ = false;
  size_t rank_ = 0;
  PassListener listener_;
  absl::Status status_;          // its first error
  bool begun_ = false;           // a gradient came
  std::vector<bool> seen_;       // by parameter: its gradient came
  std::vector<bool> taken_;      // by parameter: there was one, of this pass or those before
  std::vector<size_t> missing_;  // by bucket: parameters without their gradient
  size_t next_ = 0;              // first bucket that was not told of
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_GRADIENT_HOOKS_H_
