#ifndef GRADWIRE_WORKER_LEARNING_FUSED_KERNELS_H_
#define GRADWIRE_WORKER_LEARNING_FUSED_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradwire {

// The update of an optimizer, element by element. The numbers are those of torch::optim.
struct FusedRule {
  enum class Kind { kSgd, kAdam };
  Kind kind = Kind::kSgd;
  double weight_decay = 0;
  bool decoupled = false;  // Adam: the decay does not go through the gradient (AdamW)
  double momentum = 0;     // of SGD; 0: it keeps no state
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // of Adam

  // Returns the number of arrays that are kept from step to step: the momentum of SGD; exp_avg and
  // exp_avg_sq of Adam.
  size_t moments() const { return kind == Kind::kAdam ? 2 : momentum != 0 ? 1 : 0; }
};

// Some elements of a step. Arrays may only overlap if they are equal: new_moments[i] may be
// old_moments[i].
struct FusedRange {
  size_t count = 0;
  float* parameters = nullptr;
  float* saved = nullptr;  // receives the parameters before the step; null: not kept
  const float* gradient = nullptr;
  const float* old_moments[2] = {};  // before the step; not read in the first step
  float* new_moments[2] = {};
};

// Updates a range in one pass over memory; `step` counts from 1.
using FusedKernel = void (*)(const FusedRule& rule, double rate, int64_t step,
                             const FusedRange& range);

// Returns the kernels that this processor can run, best first. They have one of two results: that
// of a processor with fused multiply-add, or of one without.
std::vector<FusedKernel> FusedKernels();

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_FUSED_KERNELS_H_
