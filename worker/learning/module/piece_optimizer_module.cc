// libgradwire_optimizer.so: see common/parameter_server/piece_optimizer.h.
#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "common/parameter_server/piece_optimizer.h"
#include "worker/learning/sliced_optimizer.h"

namespace gradwire {
namespace {

// Below this size torch uses no extra thread: the thread that asks trains the piece.
constexpr int64_t kElementsOfOneThread = 32768;

std::vector<torch::Tensor> Slices(float* parameters, int64_t count) {
  std::vector<torch::Tensor> slices;
  for (int64_t first = 0; first < count; first += kElementsOfOneThread) {
    const int64_t size = std::min(kElementsOfOneThread, count - first);
    slices.push_back(torch::from_blob(parameters + first, {size}));
  }
  return slices;
}

class TorchPieceOptimizer : public PieceOptimizer {
 public:
  TorchPieceOptimizer(float* parameters, int64_t count, const OptimizerKind& kind)
      : count_(count), optimizer_(Slices(parameters, count), kind) {}

  void Step(const float* gradient, double rate) override {
    optimizer_.Step(torch::from_blob(const_cast<float*>(gradient), {count_}), rate);
  }

 private:
  const int64_t count_;
  SlicedOptimizer optimizer_;
};

}  // namespace
}  // namespace gradwire

extern "C" gradwire::PieceOptimizer* gradwire_make_piece_optimizer(
    const gradwire::PieceOptimizerSpec& spec, float* parameters, size_t count, std::string* error) {
  using namespace gradwire;
  try {
    const absl::StatusOr<OptimizerKind> kind =
        FindOptimizer({spec.name, spec.momentum, spec.weight_decay, spec.nesterov});
    if (kind.ok()) {
      return new TorchPieceOptimizer(parameters, static_cast<int64_t>(count), *kind);
    }
    *error = std::string(kind.status().message());
  } catch (const c10::Error& thrown) {
    *error = thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    *error = thrown.what();
  }
  return nullptr;
}
