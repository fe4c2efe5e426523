#ifndef GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
#define GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_

#include "absl/status/statusor.h"
#include "common/telemetry/trace_span.h"
#include "worker/data/training_batches.h"
#include "worker/learning/learning_rate.h"
#include "worker/models/prepare.h"
#include "worker/options/worker_options.h"
#include "worker/run/trainer.h"

namespace gradwire {

// What a worker's options, which are checked, mean for its parts.
ModelOptions ModelOptionsOf(const WorkerOptions& options, int64_t classes);
absl::StatusOr<TrainerOptions> TrainerOptionsOf(const WorkerOptions& options, const RunSize& run,
                                                OnSpan on_span);
TrainingBatchOptions BatchOptionsOf(const WorkerOptions& options, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
