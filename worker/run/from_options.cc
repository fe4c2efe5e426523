#include "worker/run/from_options.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/environment.h"
#include "common/base/host.h"
#include "common/base/output_file.h"
#include "common/compress/codec.h"
#include "common/wire/view.h"
#include "common/wire/xxh3.h"
#include "worker/ddp/model_layout.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {

namespace {

// Returns why a worker with these options cannot go on without a lost one; empty if it can.
std::string WhyNotRecover(const WorkerOptions& options) {
  if (!options.inference.empty()) return "with --inference no worker takes over another's part";
  if (TraitsOfSync(options.sync).periodic) {
    return absl::StrCat("with sync ", options.sync, " each rank has its own model");
  }
  if (TraitsOfSync(options.sync).served) {
    return absl::StrCat("with sync ", options.sync, " pushed gradients cannot be taken back");
  }
  if (options.compress != WorkerOptions().compress) {
    return absl::StrCat("the residuals of a rank are lost with it (--compress ", options.compress,
                        ")");
  }
  if (TraitsOfBackend(options.backend).recovers) return "";
  return absl::StrCat("with back end ", options.backend, " a worker carries one rank");
}

bool MeansHaveResiduals(const Compression& compression) {
  return compression.is_coded() && CodingOf(compression.dtype)->has_residual();
}

}  // namespace

std::string WhyNotKept(const Compression& compression, const std::string& backend) {
  if (!MeansHaveResiduals(compression) || backend != kAutoOfGathering) return "";
  return absl::StrCat("with this compression and back end ", backend,
                      " the coordinator keeps residuals; back end sharded has them at workers");
}

namespace {

// Returns why the state of a worker with these options cannot be kept in checkpoints; empty if it
// can.
std::string WhyNoCheckpoints(const WorkerOptions& options) {
  if (!options.inference.empty()) return "--inference trains nothing";
  if (TraitsOfSync(options.sync).served) {
    return absl::StrCat("with --sync ", options.sync, " the aggregators keep the model");
  }
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  const std::string kept = compression.ok() ? WhyNotKept(*compression, options.backend) : "";
  if (!kept.empty()) return kept;
  // It has no view that begins later than with step 0.
  if (!TraitsOfBackend(options.backend).recovers) {
    return absl::StrCat("with --backend ", options.backend, " a run cannot resume");
  }
  return "";
}

// Adds facts that may change bits without being an option.
void AddEnvironment(google::protobuf::Map<std::string, std::string>* values) {
  const std::string chosen = Value(CurrentEnvironment(), "ATEN_CPU_CAPABILITY");
  (*values)["torch"] = TORCH_VERSION;
  (*values)["instructions"] = chosen.empty() ? Xxh3Kernels().front()->name : chosen;
  if (const absl::StatusOr<Blas> blas = FindBlas(); blas.ok()) (*values)["blas"] = blas->name;
}

}  // namespace

v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples) {
  v1::Hello hello;
  hello.set_cannot_recover(WhyNotRecover(options));
  hello.set_cannot_checkpoint(WhyNoCheckpoints(options));
  AddEnvironment(hello.mutable_environment());
  for (const Rank rank : options.ranks) hello.add_ranks(static_cast<uint32_t>(rank.value()));
  hello.set_world_size(static_cast<uint32_t>(options.world_size));
  hello.set_threads(static_cast<uint32_t>(options.threads));
  auto& settings = *hello.mutable_settings();
  settings["training samples"] = absl::StrCat(training_samples);
  for (const auto& [name, value] : AgreedValues(options)) {
    const bool stated = value.agreement == Agreement::kSetting ||
                        (value.agreement == Agreement::kSettingUnlessDefault && !value.is_default);
    if (stated) settings[name] = value.text;
  }
  return hello;
}

absl::StatusOr<std::unique_ptr<LowRankExchange>> ConnectLowRank(
    RunMember* member, const std::string& name, const Layout& tensors, const Reducer& reducer,
    const Compression& compression, const View& view) {
  LowRankPlan plan = LowRankPlanOf(reducer, compression.rank);
  const auto factors = member->Declare(name, tensors, plan.specs());
  if (!factors.ok()) return factors.status();
  LowRankLayouts layouts = {*factors, *factors, static_cast<uint64_t>(compression.warmup_steps),
                            view.first_step};
  if (layouts.whole_steps > 0) {
    const auto whole =
        member->Declare(absl::StrCat(name, ", whole gradients"), tensors, reducer.BucketSpecs());
    if (!whole.ok()) return whole.status();
    layouts.whole = *whole;
  }
  spdlog::info(
      "{}: {} of {} bytes of gradients travel in a step; each rank keeps {} bytes of residuals",
      name, plan.factor_bytes(), plan.gradient_bytes(), plan.residual_bytes());
  return std::make_unique<LowRankExchange>(&member->exchange(), std::move(plan), layouts,
                                           view.OwnRanks());
}

absl::Status CheckKept(const Compression& compression, const std::string& backend,
                       const View& view) {
  const bool elsewhere = backend == kAutoOfGathering || !view.aggregators.empty();
  if (!view.keeps_state || !elsewhere || !MeansHaveResiduals(compression)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--run-dir: got means that ",
      view.aggregators.empty() ? "the coordinator compresses" : "aggregators compress",
      ", and whose residuals no worker has; expected --backend sharded, which makes the "
      "workers aggregators"));
}

namespace {

Nonfinite NonfiniteOf(const std::string& name) {
  if (name == "stop") return Nonfinite::kStop;
  return name == "skip" ? Nonfinite::kSkip : Nonfinite::kIgnore;
}

Updater UpdaterOf(const SyncTraits& sync) {
  if (sync.periodic) return Updater::kRank;
  return sync.served ? Updater::kServer : Updater::kAll;
}

}  // namespace

ModelOptions ModelOptionsOf(const WorkerOptions& options, int64_t classes) {
  return {options.model,           classes,        options.image_size, options.hidden,
          options.freeze_features, options.weights};
}

namespace {

Replication ReplicationOf(const WorkerOptions& options) {
  const std::string& name = options.inference.empty() ? options.replication : options.inference;
  return name == "vanilla" ? Replication::kVanilla : Replication::kNative;
}

}  // namespace

absl::StatusOr<std::shared_ptr<DataParallel>> OnDevices(const WorkerOptions& options,
                                                        int64_t classes,
                                                        std::shared_ptr<Model> model) {
  if (options.devices == 1) return nullptr;
  ModelOptions replica = ModelOptionsOf(options, classes);
  replica.weights.clear();  // like the image size, they were checked for the model itself
  replica.image_size = 0;
  return DataParallel::Create(
      std::move(model), [&replica] { return PrepareModel(replica); }, options.devices,
      options.threads, ReplicationOf(options));
}

absl::StatusOr<TrainerOptions> TrainerOptionsOf(const WorkerOptions& options,
                                                const TrainingSize& run, OnSpan on_span) {
  const absl::StatusOr<Loss> loss = FindLoss(options.loss);
  if (!loss.ok()) return loss.status();
  absl::StatusOr<LearningRate> learning_rate = MakeLearningRate(options, run);
  if (!learning_rate.ok()) return learning_rate.status();
  TrainerOptions trainer;
  trainer.loss = *loss;
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  const double momentum = compression->momentum > 0 ? 0 : options.momentum;  // the ranks apply it
  trainer.update.optimizer = {options.optimizer, momentum, options.weight_decay, options.nesterov};
  trainer.learning_rate = *std::move(learning_rate);
  trainer.reducer.bucket_cap_bytes = options.bucket_cap_mb * (1 << 20);
  trainer.reducer.broadcast_buffers = options.broadcast_buffers;
  trainer.reducer.updater = UpdaterOf(TraitsOfSync(options.sync));
  trainer.changes_mean = TraitsOfSync(options.sync).changes_mean;
  trainer.step_timeout = absl::Seconds(options.step_timeout_seconds);
  trainer.micro_batch = options.batch_size;
  trainer.seed = options.seed;
  trainer.update.on_nonfinite = NonfiniteOf(options.on_nonfinite);
  trainer.update.clip_norm = options.clip_norm;
  trainer.update.compare_every = options.check_replicas;
  // With a skipped update, a forward pass that used it would have to be undone, too; and the norm
  // of a gradient is known only when all of it has arrived.
  const bool waits = options.barrier || trainer.update.on_nonfinite == Nonfinite::kSkip ||
                     trainer.update.clip_norm > 0;
  trainer.updates_late = TraitsOfSync(options.sync).updates_late && !waits;
  trainer.on_span = std::move(on_span);
  return trainer;
}

absl::StatusOr<MemberOptions> MemberOptionsOf(const WorkerOptions& options, OnSpan on_span) {
  absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  const absl::StatusOr<v1::DType> wire = WireTypeOf(options);
  if (!wire.ok()) return wire.status();
  MemberOptions member;
  member.endpoint = {options.coordinator, options.listen,
                     options.advertise,   absl::Seconds(options.connect_timeout_seconds),
                     options.security,    SharesMemory(options.shared_memory)};
  member.backend = options.backend;
  member.transport.wire = *wire;
  member.transport.compression = *std::move(compression);
  member.transport.connections = options.connections;
  member.transport.groups = options.groups;
  member.transport.gathers = TraitsOfSync(options.sync).gathers;
  member.transport.on_span = std::move(on_span);
  member.step_timeout = absl::Seconds(options.step_timeout_seconds);
  return member;
}

absl::StatusOr<SyncOptions> SyncOptionsOf(const WorkerOptions& options, const TrainingSize& run,
                                          const Model& model) {
  absl::StatusOr<LearningRate> learning_rate = MakeLearningRate(options, run);
  if (!learning_rate.ok()) return learning_rate.status();
  SyncOptions sync{options};
  sync.learning_rate = *std::move(learning_rate);
  sync.total_steps = run.total_steps;
  sync.step_timeout = absl::Seconds(options.step_timeout_seconds);
  for (const torch::Tensor& buffer : model.trained_buffers()) {
    const bool averaged = options.broadcast_buffers && buffer.scalar_type() == torch::kFloat;
    if (averaged) sync.averaged_buffers.push_back(buffer);
  }
  return sync;
}

v1::Serving ServingOf(const WorkerOptions& options, const TrainingSize& run) {
  v1::Serving serving;
  if (!TraitsOfSync(options.sync).served) return serving;
  serving.set_optimizer(options.optimizer);
  serving.set_momentum(options.momentum);
  serving.set_weight_decay(options.weight_decay);
  serving.set_nesterov(options.nesterov);
  if (options.staleness != kNoBound) {
    serving.set_staleness(static_cast<uint64_t>(options.staleness));
  }
  serving.set_steps(static_cast<uint64_t>(run.total_steps));
  serving.set_meet_every(static_cast<uint64_t>(options.evaluate_every * run.steps_per_epoch));
  return serving;
}

ComputeSeconds SleepsOf(const WorkerOptions& options) {
  ComputeSeconds seconds = *options.compute_seconds;
  seconds.forward += options.late_seconds;
  return seconds;
}

TrainingBatchOptions BatchOptionsOf(const WorkerOptions& options, int world_size) {
  TrainingBatchOptions batches;
  batches.sampler = {world_size, true, options.sampler_seed, options.drop_last, options.set_epoch};
  batches.batch_size = options.batch_size * options.accumulate;
  batches.augment = options.augment;
  batches.seed = options.seed;
  return batches;
}

namespace {

// Whether all ranks may write there at once: /dev/null, a terminal, a pipe.
bool TakesAll(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_character_file(path, ignored) ||
         std::filesystem::is_fifo(path, ignored);
}

// A worker has one trace; each rank has a log and a summary.
absl::Status CheckNames(const WorkerOptions& options, const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return absl::OkStatus();
  for (const std::string& path : {options.summary, options.log_jsonl}) {
    if (path.empty() || TakesAll(path)) continue;
    if (PathOfRank(path, ranks[0]) != PathOfRank(path, ranks[1])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("got file ", path, " for ", NameOf(ranks), ", expected {rank} in its name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOutputs(const WorkerOptions& options, const std::vector<Rank>& ranks) {
  if (absl::Status named = CheckNames(options, ranks); !named.ok()) return named;
  std::vector<std::string> paths = {PathOfRank(options.trace, ranks.front()), options.save_weights};
  for (const Rank rank : ranks) {
    paths.push_back(PathOfRank(options.summary, rank));
    paths.push_back(PathOfRank(options.log_jsonl, rank));
  }
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    if (absl::Status status = CheckWritable(path); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gradwire
