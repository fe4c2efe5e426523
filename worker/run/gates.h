#ifndef GRADWIRE_WORKER_RUN_GATES_H_
#define GRADWIRE_WORKER_RUN_GATES_H_

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/ddp/reducer.h"
#include "worker/models/model.h"

namespace gradwire {

// A stage of a model (see Model::stages), and in front of it a gate: the buckets that hold
// what it reads have to be up to date first.
struct GatedStage {
  std::function<torch::Tensor(torch::Tensor)> forward;
  std::vector<size_t> buckets;
};

// The stages of `model`, or all of it as one. What no stage names, and the buffers, are
// wanted by the first one. The model outlives them.
std::vector<GatedStage> GateStages(Model* model, const Reducer& reducer);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_GATES_H_
