#ifndef GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_
#define GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/models/model.h"

namespace gradwire {

// A module with its own parameters, not only its children's.
struct LayerCost {
  std::string name;  // as in a key of a state dict
  std::vector<torch::Tensor> parameters;
  // For one forward pass: the multiply-adds of its convolutions and matrix products, and of
  // products without parameters (attention) before the next layer.
  int64_t multiply_adds = 0;
};

// Returns the layers that `input` passes, in the order of their first use, counted in a forward
// pass in evaluation mode that does not change the model. Throws torch's errors, like forward().
std::vector<LayerCost> CountMultiplyAdds(Model* model, const torch::Tensor& input);

// Divides `whole` in proportion to the layers' multiply-adds; equally if all have none.
std::vector<double> ShareOut(double whole, const std::vector<LayerCost>& layers);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_
