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

// Returns a worker's Hello: the ranks that it wants, its host, and the settings that must be equal
// on all workers. `training_samples`: number in its data set. The caller adds the addresses.
v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples);

// Declares, under `name` and instead of the reducer's buckets, the factors that `compression` makes
// of the gradients of `tensors`. Returns the exchange for them; the reducer may use it with any
// layout. `member` must be connected, with `view`, and outlive the exchange. Logs the bytes that
// are sent and kept. Errors: those of RunMember::Declare.
absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(
    RunMember* member, const std::string& name, const Layout& tensors, const Reducer& reducer,
    const Compression& compression, const View& view);

// Returns why a run with this codec and back end keeps no state in checkpoints; empty if it may.
std::string WhyNotKept(const Compression& compression, const std::string& backend);
// Returns InvalidArgument if `view` keeps its state in checkpoints, but an aggregator that is no
// worker keeps residuals of means. `backend`: the one in force.
absl::Status CheckKept(const Compression& compression, const std::string& backend,
                       const View& view);

// Convert a worker's checked options to the options of its parts.
ModelOptions ModelOptionsOf(const WorkerOptions& options, int64_t classes);
absl::StatusOr<TrainerOptions> TrainerOptionsOf(const WorkerOptions& options,
                                                const TrainingSize& run, OnSpan on_span);
// Puts `model`, made from ModelOptionsOf, on all devices; returns null if there is only one.
// Errors: those of PrepareModel.
absl::StatusOr<std::shared_ptr<DataParallel>> OnDevices(const WorkerOptions& options,
                                                        int64_t classes,
                                                        std::shared_ptr<Model> model);
// `on_span` gets transfers and sums; may be empty. Errors: those of CompressionOf.
absl::StatusOr<MemberOptions> MemberOptionsOf(const WorkerOptions& options, OnSpan on_span);
// Returns the options of MakeSynchronizer. Errors: those of MakeLearningRate.
absl::StatusOr<SyncOptions> SyncOptionsOf(const WorkerOptions& options, const TrainingSize& run,
                                          const Model& model);
// Returns how aggregators serve the model; without an optimizer if they do not.
v1::Serving ServingOf(const WorkerOptions& options, const TrainingSize& run);
// Returns how long each of this worker's ranks sleeps; `options` emulate computation.
ComputeSeconds SleepsOf(const WorkerOptions& options);
TrainingBatchOptions BatchOptionsOf(const WorkerOptions& options, int world_size);

// Checks that `ranks` of one worker (one or more) can write their output files, each to its own
// file. InvalidArgument: "cannot write …", or several ranks have the same file.
absl::Status CheckOutputs(const WorkerOptions& options, const std::vector<Rank>& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_FROM_OPTIONS_H_
