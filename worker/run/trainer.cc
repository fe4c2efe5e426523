#include "worker/run/trainer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "worker/learning/finite.h"
#include "worker/run/forward_seed.h"

namespace gradwire {
namespace {

bool Before(const TensorDigest& a, const TensorDigest& b) { return a.tensor < b.tensor; }

absl::Status Stopped() { return absl::CancelledError("the worker was told to stop"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(std::shared_ptr<Model> model,
                                                         const TrainerOptions& options) {
  ReducerOptions of_reducer = options.reducer;
  of_reducer.undoable = options.seal.ready != nullptr;
  auto reducer = Reducer::Create(model->parameters(), model->trained_buffers(), of_reducer);
  if (!reducer.ok()) return reducer.status();
  const absl::StatusOr<OptimizerKind> optimizer = FindOptimizer(options.optimizer);
  if (!optimizer.ok()) return optimizer.status();
  return absl::WrapUnique(new Trainer(std::move(model), options, *std::move(reducer), *optimizer));
}

Trainer::Trainer(std::shared_ptr<Model> model, const TrainerOptions& options,
                 std::unique_ptr<Reducer> reducer, const OptimizerKind& optimizer)
    : model_(std::move(model)),
      options_(options),
      reducer_(std::move(reducer)),
      stages_(GateStages(model_.get(), *reducer_)),
      optimizer_(optimizer) {
  all_buckets_.resize(reducer_->bucket_count());
  std::iota(all_buckets_.begin(), all_buckets_.end(), 0);
}

// Of carried rank number `rank`; they are made with the first step.
std::vector<SlicedOptimizer>& Trainer::OptimizersOf(size_t rank) {
  while (optimizers_.size() <= rank) {
    optimizers_.emplace_back();
    for (size_t i = 0; i < reducer_->gradient_buckets(); ++i) {
      optimizers_.back().emplace_back(reducer_->ParametersOf(i), optimizer_);
    }
  }
  return optimizers_[rank];
}

// The rank's terms are the sum of this pass and those before; they leave as the sync says.
absl::Status Trainer::LastBackward(const torch::Tensor& loss, Rank rank, Calls& calls) {
  Synchronizer* const sync = calls.sync;
  if (!options_.reducer.own_models) reducer_->EndForward(rank);
  PassListener listener;
  if (sync != nullptr) {
    if (rank == reducer_->ranks().front()) reducer_->BeginStep(computing_, options_.step_timeout);
    sync->OnForwardDone(rank);
    listener.on_bucket = [sync, rank](size_t bucket) { sync->OnBucketReady(bucket, rank); };
  }
  reducer_->BeginPass(rank, std::move(listener));
  loss.backward();
  absl::Status status = reducer_->EndPass();
  if (status.ok() && sync != nullptr) sync->OnBackwardDone(rank);
  return status;
}

// The time at gates is that of the step before.
absl::StatusOr<torch::Tensor> Trainer::Forward(torch::Tensor images, Calls& calls) {
  for (const GatedStage& stage : stages_) {
    if (absl::Status status = PassGate(stage.buckets, calls); !status.ok()) return status;
    Stopwatch watch;
    images = stage.forward(std::move(images));
    Lap(&watch, "forward", computing_, &times_[Phase::kForward]);
  }
  return images;
}

// Of `count` samples of the batch, from `first` on: their share of the batch's mean.
absl::StatusOr<torch::Tensor> Trainer::LossOf(const Batch& batch, int64_t first, int64_t count,
                                              Calls& calls, StepRecord* report) {
  absl::StatusOr<torch::Tensor> scores = Forward(batch.images.narrow(0, first, count), calls);
  if (!scores.ok()) return scores.status();
  Stopwatch watch;
  const torch::Tensor labels = batch.labels.narrow(0, first, count);
  torch::Tensor loss = options_.loss(*scores, labels, /*sum=*/false);
  const int64_t size = batch.size();
  if (count < size) loss = loss * (static_cast<double>(count) / static_cast<double>(size));
  report->loss += loss.item<double>();
  report->correct += scores->detach().argmax(1).eq(labels).sum().item<int64_t>();
  Lap(&watch, "loss", computing_, &times_[Phase::kForward]);
  return loss;
}

absl::Status Trainer::Compute(const Batch& batch, Rank rank, Calls& calls, StepRecord* report) {
  // Buffers of the step before have to be there before any rank starts from them.
  if (absl::Status status = PassGate(stages_.front().buckets, calls); !status.ok()) return status;
  reducer_->BeginForward(rank);
  const int64_t size = batch.size();
  const int64_t piece = options_.micro_batch > 0 ? options_.micro_batch : size;
  int64_t passes = 0;
  for (int64_t first = 0; first < size; first += piece) {
    const int64_t count = std::min(piece, size - first);
    Begin("forward", computing_);
    SeedForward(ForwardSeed(options_.seed, computing_, rank, passes++));
    absl::StatusOr<torch::Tensor> loss = LossOf(batch, first, count, calls, report);
    if (!loss.ok()) return loss.status();
    if (calls.stopped()) return Stopped();
    Stopwatch watch;
    Begin("backward", computing_);
    absl::Status status;
    if (first + count == size) {
      status = LastBackward(*loss, rank, calls);
    } else {
      loss->backward();
    }
    Lap(&watch, "backward", computing_, &times_[Phase::kBackward]);
    if (!status.ok()) return status;
    if (calls.stopped()) return Stopped();
  }
  return absl::OkStatus();
}

// The reducer gave the buffers to the module when it gave their bucket.
void Trainer::Update(size_t bucket, bool averaged) {
  Stopwatch watch;
  if (bucket < reducer_->gradient_buckets() && options_.reducer.served) {
    reducer_->TakeParameters(bucket);
  } else if (bucket < reducer_->gradient_buckets()) {
    SlicedOptimizer& optimizer = OptimizersOf(0)[bucket];
    const torch::Tensor gradient = GradientOf(bucket, averaged);
    const bool looks = options_.on_nonfinite != Nonfinite::kIgnore && nonfinite_.empty();
    if (looks && !AllFinite(gradient)) nonfinite_ = DescribeNonfinite(bucket, averaged);
    if (unsealed_.has_value() || options_.on_nonfinite == Nonfinite::kSkip) {
      saved_.push_back(bucket);
      optimizer.Save();
    }
    optimizer.Step(gradient, pending_.front().lr);
    if (unsealed_.has_value() && IsCompared(pending_.front().step)) Digest(bucket);
  }
  updated_[bucket] = true;
  --to_update_;
  Lap(&watch, "optimizer", pending_.front().step, &pending_times_[Phase::kOptimizer]);
}

torch::Tensor Trainer::GradientOf(size_t bucket, bool averaged) const {
  return averaged ? reducer_->mean(bucket) : reducer_->terms(bucket, reducer_->ranks().front());
}

// The bucket's first parameter with such a gradient, and the carried ranks that have put one in.
std::string Trainer::DescribeNonfinite(size_t bucket, bool averaged) const {
  const torch::Tensor gradient = GradientOf(bucket, averaged);
  const std::vector<torch::Tensor> parameters = reducer_->ParametersOf(bucket);
  int64_t first = 0;
  size_t i = 0;
  while (AllFinite(gradient.narrow(0, first, parameters[i].numel()))) {
    first += parameters[i++].numel();
  }
  std::vector<Rank> from;
  for (const Rank rank : reducer_->ranks()) {
    if (!AllFinite(reducer_->terms(bucket, rank))) from.push_back(rank);
  }
  const std::string name = model_->named_parameters().keys()[reducer_->IndicesOf(bucket)[i]];
  return absl::StrCat("the mean gradient of ", name, " is not finite",
                      from.empty() ? "" : absl::StrCat(", as that of ", NameOf(from), " is not"));
}

void Trainer::Skip() {
  for (const size_t bucket : saved_) OptimizersOf(0)[bucket].Undo();
  saved_.clear();
  digests_.clear();
  for (StepRecord& report : pending_) report.skipped = true;
}

bool Trainer::IsCompared(Step step) const {
  const auto every = static_cast<uint64_t>(options_.seal.compare_every);
  return every > 0 && (step == first_ || step.value() % every == 0);
}

void Trainer::Digest(size_t bucket) {
  const std::vector<torch::Tensor> parameters = reducer_->ParametersOf(bucket);
  const std::vector<size_t> indices = reducer_->IndicesOf(bucket);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto* const elements = static_cast<const uint8_t*>(parameters[i].data_ptr());
    digests_.push_back({indices[i], Checksum({elements, parameters[i].nbytes()})});
  }
}

// Reports of the step's ranks before this one are there.
void Trainer::UpdateOwn(Rank rank, double lr) {
  Stopwatch watch;
  std::vector<SlicedOptimizer>& optimizers = OptimizersOf(reports_.size());
  for (size_t i = 0; i < optimizers.size(); ++i) optimizers[i].Step(reducer_->terms(i, rank), lr);
  reducer_->EndForward(rank);
  Lap(&watch, "optimizer", computing_, &times_[Phase::kOptimizer]);
}

void Trainer::Lap(Stopwatch* watch, const char* name, Step step, absl::Duration* phase) const {
  const absl::Time begin = watch->last();
  *phase += watch->Lap();
  if (!options_.on_span) return;
  options_.on_span({TraceSpan::Lane::kCompute, name, step, Bucket(0), begin, watch->last()});
}

void Trainer::Begin(const char* phase, Step step) const {
  if (options_.on_phase) options_.on_phase(phase, step, /*waits=*/false, absl::nullopt);
}

void Trainer::BeginWait(Step step, absl::optional<Bucket> bucket) const {
  if (options_.on_phase) options_.on_phase("wait", step, /*waits=*/true, bucket);
}

void Trainer::Report(Calls& calls) {
  if (calls.sync != nullptr) pending_times_ += calls.sync->TakeTimes();
  const absl::Duration iteration = calls.iteration.Lap();
  std::vector<StepRecord> reports;
  reports.swap(pending_);
  for (StepRecord& report : reports) {
    report.iteration = iteration;
    report.phases = pending_times_;
  }
  calls.on_step(reports);
  current_step_ = computing_;
}

absl::StatusOr<size_t> Trainer::AwaitBucket(size_t wanted, Calls& calls) {
  Stopwatch watch;
  absl::Duration waited;  // the reducer counts it
  BeginWait(pending_.front().step, Bucket(static_cast<int>(wanted)));
  absl::StatusOr<size_t> bucket = calls.sync->NextBucket();
  if (bucket.ok()) Begin("forward", computing_);  // else nothing is done any more
  Lap(&watch, "wait", pending_.front().step, &waited);
  return bucket;
}

// Of the step before the pending one, or of the pending one once all of it is applied.
absl::Status Trainer::AwaitSeal() {
  if (!unsealed_.has_value()) return absl::OkStatus();
  BeginWait(*unsealed_);
  if (absl::Status sealed = options_.seal.await(*unsealed_); !sealed.ok()) return sealed;
  Begin("forward", computing_);
  reducer_->Keep();
  unsealed_.reset();
  saved_.clear();
  return absl::OkStatus();
}

void Trainer::Rewind(Step first) {
  if (unsealed_.has_value() && *unsealed_ < first) {
    reducer_->Keep();
    saved_.clear();
  }
  for (const size_t bucket : saved_) OptimizersOf(0)[bucket].Undo();
  saved_.clear();
  unsealed_.reset();
  begun_ = {};
  next_step_ = first;
  reducer_->Rewind();
  first_ = first;
  digests_.clear();
}

absl::optional<absl::Time> Trainer::BegunAt(Step step) const {
  const auto& begun = begun_[step.value() % 2];
  if (!begun.has_value() || begun->first != step) return absl::nullopt;
  return begun->second;
}

// Until the parameters in `buckets` are up to date, updates whatever can be:
// what comes early is not left for a time when nothing else is to be done.
absl::Status Trainer::PassGate(const std::vector<size_t>& buckets, Calls& calls) {
  if (pending_.empty()) return absl::OkStatus();
  if (unsealed_.has_value() && *unsealed_ != pending_.front().step) {
    if (absl::Status sealed = AwaitSeal(); !sealed.ok()) return sealed;
  }
  if (options_.seal.ready) unsealed_ = pending_.front().step;
  for (const size_t wanted : buckets) {
    while (!updated_[wanted]) {
      const absl::StatusOr<size_t> bucket =
          calls.sync != nullptr ? AwaitBucket(wanted, calls) : wanted;
      if (!bucket.ok()) return bucket.status();
      Update(*bucket, calls.sync != nullptr);
    }
  }
  return to_update_ > 0 ? absl::OkStatus() : EndStep(calls);
}

// All of the pending step's updates are made.
absl::Status Trainer::EndStep(Calls& calls) {
  if (!nonfinite_.empty()) {
    const std::string what = absl::StrCat("step ", pending_.front().step.value(), ": ", nonfinite_);
    if (options_.on_nonfinite == Nonfinite::kStop) {
      absl::Status stop = absl::OutOfRangeError(what);
      stop.SetPayload(kOfAll, absl::Cord());
      return stop;
    }
    spdlog::warn("{}; its update is left out", what);
    Skip();
  }
  Report(calls);
  if (!unsealed_.has_value()) saved_.clear();
  if (!unsealed_.has_value()) return absl::OkStatus();
  std::sort(digests_.begin(), digests_.end(), Before);
  options_.seal.ready(*unsealed_, std::exchange(digests_, {}));
  return absl::OkStatus();
}

absl::Status Trainer::RunRank(const Batch& batch, Rank rank, Calls& calls) {
  StepRecord report;
  report.step = batch.step;
  report.rank = rank;
  report.epoch = batch.epoch;
  report.samples = batch.size();
  report.padded = batch.padded;
  report.lr = options_.learning_rate(batch.step);
  absl::Status status = Compute(batch, rank, calls, &report);
  if (status.ok() && options_.reducer.own_models) UpdateOwn(rank, report.lr);
  reports_.push_back(report);
  return status;
}

// The updates are made, and the sync makes of the models what it does.
absl::Status Trainer::EndOwnStep(Calls& calls) {
  Stopwatch watch;
  absl::Duration taken;  // the sync counts it
  BeginWait(computing_);
  absl::Status status = calls.sync->OnStepDone(computing_);
  Lap(&watch, "exchange", computing_, &taken);
  if (status.ok()) Report(calls);
  return status;
}

// `wait` began when the first rank's batch was asked for.
absl::Status Trainer::RunStep(absl::StatusOr<Batch> batch, Stopwatch wait, Calls& calls) {
  computing_ = batch->step;
  next_step_ = Step(computing_.value() + 1);
  begun_[computing_.value() % 2] = {computing_, wait.last()};
  reports_.clear();
  times_ = {};
  if (pending_.empty()) current_step_ = computing_;
  for (const Rank rank : reducer_->ranks()) {
    if (rank != reducer_->ranks().front()) {
      wait = Stopwatch();
      Begin("data", computing_);
      batch = calls.next();
      if (calls.stopped()) return Stopped();
      if (!batch.ok()) return batch.status();
    }
    Lap(&wait, "data", computing_, &times_[Phase::kData]);
    if (absl::Status status = RunRank(*batch, rank, calls); !status.ok()) return status;
  }
  pending_.swap(reports_);
  nonfinite_.clear();
  pending_times_ = times_;
  if (options_.reducer.own_models) return EndOwnStep(calls);
  updated_.assign(all_buckets_.size(), false);
  to_update_ = all_buckets_.size();
  return options_.updates_late ? absl::OkStatus() : PassGate(all_buckets_, calls);
}

absl::Status Trainer::RunSteps(Calls& calls) {
  while (true) {
    const Stopwatch wait;
    Begin("data", next_step_);
    absl::StatusOr<Batch> batch = calls.next();
    if (calls.stopped()) return Stopped();
    if (!batch.ok()) {
      absl::Status completed = PassGate(all_buckets_, calls);
      if (completed.ok()) completed = AwaitSeal();
      return absl::IsOutOfRange(batch.status()) ? completed : batch.status();
    }
    if (absl::Status status = RunStep(std::move(batch), wait, calls); !status.ok()) return status;
  }
}

// Leaves nothing of a step that was not completed.
void Trainer::Reset() {
  pending_.clear();
  for (torch::Tensor& parameter : model_->parameters()) parameter.mutable_grad().reset();
}

absl::Status Trainer::Run(const NextBatch& next, Synchronizer* sync, const OnStep& on_step,
                          const std::function<bool()>& stopped) {
  Calls calls{next, sync, on_step, stopped, {}};
  absl::Status status;
  try {
    status = RunSteps(calls);
  } catch (const c10::Error& error) {
    status = absl::InternalError(
        absl::StrCat("step ", computing_.value(), ": torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    status = absl::InternalError(absl::StrCat("step ", computing_.value(), ": ", error.what()));
  }
  if (status.ok()) return status;
  if (sync != nullptr) sync->Abandon(status);
  reducer_->Abandon(status);
  Reset();
  return status;
}

}  // namespace gradwire
