#ifndef GRADWIRE_WORKER_RUN_EVALUATOR_H_
#define GRADWIRE_WORKER_RUN_EVALUATOR_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "worker/data/evaluation_batches.h"
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

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_EVALUATOR_H_
