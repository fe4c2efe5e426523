#ifndef GRADWIRE_WORKER_RUN_EVALUATOR_H_
#define GRADWIRE_WORKER_RUN_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/evaluation_batches.h"
#include "worker/ddp/reducer.h"
#include "worker/models/model.h"

namespace gradwire {

struct Evaluation {
  double loss = 0;      // mean cross entropy over all samples
  double accuracy = 0;  // share of samples whose highest score is their label, 0 … 1
  int64_t samples = 0;
};

// Runs the model (in evaluation mode; training mode is restored) over all
// batches. `stopped` is asked before each: true ends it with Cancelled.
// Internal if torch throws.
absl::StatusOr<Evaluation> Evaluate(Model& model, const EvaluationBatches& batches,
                                    const std::function<bool()>& stopped);

// The same for each rank of `reducer` in their order, with its buffers, and says in the log what
// came out. `alike`: their buffers are equal, so that one pass is enough.
absl::StatusOr<std::vector<Evaluation>> EvaluateRanks(Model& model, Reducer& reducer, bool alike,
                                                      const EvaluationBatches& batches,
                                                      const std::function<bool()>& stopped);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_EVALUATOR_H_
