#ifndef GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
#define GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/telemetry/trace_span.h"
#include "worker/data/training_batches.h"
#include "worker/data_parallel/data_parallel.h"
#include "worker/learning/learning_rate.h"
#include "worker/member/member.h"
#include "worker/models/prepare.h"
#include "worker/options/worker_options.h"
#include "worker/run/trainer.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// What a worker's options, which are checked, mean for its parts.
ModelOptions ModelOptionsOf(const WorkerOptions& options, int64_t classes);
absl::StatusOr<TrainerOptions> TrainerOptionsOf(const WorkerOptions& options,
                                                const TrainingSize& run, OnSpan on_span);
// `model`, as ModelOptionsOf made it, on all devices that are asked for; null if that is one.
// Errors: those of PrepareModel.
absl::StatusOr<std::shared_ptr<DataParallel>> OnDevices(const WorkerOptions& options,
                                                        int64_t classes,
                                                        std::shared_ptr<Model> model);
// `on_span` hears of transfers and sums; may be empty. Errors: those of CompressionOf.
absl::StatusOr<MemberOptions> MemberOptionsOf(const WorkerOptions& options, OnSpan on_span);
// For MakeSynchronizer. Errors: those of MakeLearningRate.
absl::StatusOr<SyncOptions> SyncOptionsOf(const WorkerOptions& options, const TrainingSize& run,
                                          const Model& model);
// How aggregators are to serve the model; names no optimiser with a sync whose model they do not.
v1::Serving ServingOf(const WorkerOptions& options, const TrainingSize& run);
TrainingBatchOptions BatchOptionsOf(const WorkerOptions& options, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
