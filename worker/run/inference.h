#ifndef GRADWIRE_WORKER_RUN_INFERENCE_H_
#define GRADWIRE_WORKER_RUN_INFERENCE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/telemetry/step_record.h"
#include "worker/data/evaluation_batches.h"
#include "worker/models/model.h"

namespace gradwire {

// Scores one batch after the other, `steps` of them and all of them again if there are no
// more, with `model` in evaluation mode. `on_step` hears of each; its phases are data, and
// forward, which is the model alone, without the loss. `stopped` is asked before each: true
// ends it with Cancelled. Returns the SHA-256 of all scores of the first pass over the
// batches. Internal if torch throws.
absl::StatusOr<std::string> Infer(Model& model, const EvaluationBatches& batches, int64_t steps,
                                  const std::function<void(const StepRecord&)>& on_step,
                                  const std::function<bool()>& stopped);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_INFERENCE_H_
