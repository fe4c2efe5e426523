#ifndef GRADWIRE_COMMON_PARAMETER_SERVER_PIECE_OPTIMIZER_H_
#define GRADWIRE_COMMON_PARAMETER_SERVER_PIECE_OPTIMIZER_H_

#include <cstddef>
#include <string>

// The interface of libgradwire_optimizer.so for programs that load it (see optimizer_module.h).
// They share only this header and no library of ours: otherwise the process would contain two
// copies of one.

namespace gradwire {

// Trains some parameters in place. Not thread-safe, but not bound to a thread.
class PieceOptimizer {
 public:
  virtual ~PieceOptimizer() = default;
  // One update. `gradient` has as many elements as there are parameters.
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

// Creates an optimizer for these parameters, which must outlive it; the caller deletes it. Null,
// with the reason in `error`, if torch has no such optimizer.
extern "C" gradwire::PieceOptimizer* gradwire_make_piece_optimizer(
    const gradwire::PieceOptimizerSpec& spec, float* parameters, size_t count, std::string* error);

#endif  // GRADWIRE_COMMON_PARAMETER_SERVER_PIECE_OPTIMIZER_H_
