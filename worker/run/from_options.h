#ifndef GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
#define GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/compress/compression.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"
#include "worker/backends/low_rank_exchange.h"
#include "worker/data/batches.h"
#include "worker/data_parallel/data_parallel.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/learning_rate.h"
#include "worker/member/member.h"
#include "worker/models/prepare.h"
#include "worker/options/worker_options.h"
#include "worker/run/trainer.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// What a worker says of itself when it joins: the ranks that it wants, its host, and the
// settings that have to be equal on all workers. `training_samples`: in its data set.
// Addresses are left to the caller.
v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples);

// Declares, under `name` and in place of the reducer's buckets, what `compression`, which has
// factors, makes of the gradients of `tensors`, and gives the exchange for them; the reducer may
// use it under any layout. `member` is connected and outlives it; `ranks` are those that it
// carries. Says in the log what travels and what is kept. Errors: those of RunMember::Declare.
absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(
    RunMember* member, const std::string& name, const Layout& tensors, const Reducer& reducer,
    const Compression& compression, std::vector<Rank> ranks);

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

// Whether `ranks` of one worker (one or more) can write the files that they are told to, each
// to one of its own. InvalidArgument: "cannot write …", or several ranks have one name.
absl::Status CheckOutputs(const WorkerOptions& options, const std::vector<Rank>& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
