#ifndef GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_
#define GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/models/model.h"

namespace gradwire {

// A module that has parameters of its own, not only its children's.
struct LayerCost {
  std::string name;  // as in a key of a state dict
  std::vector<torch::Tensor> parameters;
  // Of one forward pass: those of its convolutions and products of matrices, and of products that
  // have no parameters (attention's) and come before the next layer.
  int64_t multiply_adds = 0;
};

// The layers that `input` goes through, in the order in which it comes to them first, counted in a
// forward pass in evaluation mode, which leaves the model as it was. An error of torch is thrown,
// as by forward().
std::vector<LayerCost> CountMultiplyAdds(Model* model, const torch::Tensor& input);

// Parts of `whole` in proportion to the layers' multiply-adds; equal ones if all have none.
std::vector<double> ShareOut(double whole, const std::vector<LayerCost>& layers);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MODELS_LAYER_COSTS_H_
