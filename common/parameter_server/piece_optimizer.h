#ifndef GRADWIRE_COMMON_SERVING_PIECE_OPTIMIZER_H_
#define GRADWIRE_COMMON_SERVING_PIECE_OPTIMIZER_H_

#include <cstddef>
#include <string>

// What libgradwire_optimizer.so has for those who load it (see optimizer_module.h). It shares this
// header with the programs, and no library of ours: two copies of one would be in the process.

namespace gradwire {

// Trains some parameters where they are kept. Not thread-safe, but not bound to a thread.
class PieceOptimizer {
 public:
  virtual ~PieceOptimizer() = default;
  // One update, by as many elements of gradient as there are parameters.
  virtual void Step(const float* gradient, double rate) = 0;
};

// As v1.Serving.
struct PieceOptimizerSpec {
  const char* name;
  double momentum;
  double weight_decay;
  bool nesterov;
};

}  // namespace gradwire

// One for these parameters, which outlive it, to be deleted by the caller. Null, with the reason in
// `error`, if torch has no such optimiser.
extern "C" gradwire::PieceOptimizer* gradwire_make_piece_optimizer(
    const gradwire::PieceOptimizerSpec& spec, float* parameters, size_t count, std::string* error);

#endif  // GRADWIRE_COMMON_SERVING_PIECE_OPTIMIZER_H_
