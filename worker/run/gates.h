#ifndef GRADWIRE_WORKER_RUN_GATES_H_
#define GRADWIRE_WORKER_RUN_GATES_H_

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/ddp/reducer.h"
#include "worker/models/model.h"

namespace gradwire {

// A stage of a model (see Model::stages) and its gate: the buckets that hold the parameters that
// the stage reads. They must be up to date before the stage runs.
struct GatedStage {
  std::function<torch::Tensor(torch::Tensor)> forward;
  std::vector<size_t> buckets;
};

// Returns the stages of `model`, or the whole model as one stage. The first stage also reads the
// buffers and the parameters that no stage names. The model must outlive the stages.
std::vector<GatedStage> GateStages(Model* model, const Reducer& reducer);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_GATES_H_
