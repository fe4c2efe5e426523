#include "worker/run/trainer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "worker/run/compute.h"

namespace gradwire {
namespace {

absl::Status Stopped() { return absl::CancelledError("the worker was told to stop"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(std::shared_ptr<Model> model,
                                                         const TrainerOptions& options) {
  ReducerOptions of_reducer = options.reducer;
  of_reducer.undoable = options.seal.ready != nullptr;
  of_reducer.only_reads_mean = !options.changes_mean;  // an optimizer only reads
  auto reducer = Reducer::Create(model->parameters(), model->trained_buffers(), of_reducer);
  if (!reducer.ok()) return reducer.status();
  auto pending = PendingStep::Create(model.get(), reducer->get(), options.update);
  if (!pending.ok()) return pending.status();
  return absl::WrapUnique(
      new Trainer(std::move(model), options, *std::move(reducer), *std::move(pending)));
}

Trainer::Trainer(std::shared_ptr<Model> model, const TrainerOptions& options,
                 std::unique_ptr<Reducer> reducer, std::unique_ptr<PendingStep> pending)
    : model_(std::move(model)),
      options_(options),
      reducer_(std::move(reducer)),
      stages_(GateStages(model_.get(), *reducer_)),
      pending_(std::move(pending)) {
  all_buckets_.resize(reducer_->bucket_count());
  std::iota(all_buckets_.begin(), all_buckets_.end(), 0);
}

// The rank's terms are the sum of this pass and earlier ones; the sync decides when they are sent.
absl::Status Trainer::LastBackward(const torch::Tensor& loss, Rank rank, Calls& calls) {
  Synchronizer* const sync = calls.sync;
  if (reducer_->updater() != Updater::kRank) reducer_->EndForward(rank);
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

// Time at gates counts for the previous step.
absl::StatusOr<torch::Tensor> Trainer::Forward(torch::Tensor images, Calls& calls) {
  for (const GatedStage& stage : stages_) {
    if (absl::Status status = PassGate(stage.buckets, calls); !status.ok()) return status;
    Stopwatch watch;
    images = stage.forward(std::move(images));
    Lap(&watch, "forward", computing_, &times_[Phase::kForward]);
  }
  return images;
}

// Computes the loss of `count` samples from `first` on: their part of the batch's mean.
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
  // Buffers of the previous step must arrive before any rank starts with them.
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

// The reducer already gave the buffers to the module with their bucket.
void Trainer::Update(size_t bucket) {
  Stopwatch watch;
  Begin("optimizer", pending_->step());
  pending_->Update(bucket);
  Lap(&watch, "optimizer", pending_->step(), &pending_->times()[Phase::kOptimizer]);
  Begin("forward", computing_);
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
  PhaseTimes& times = pending_->times();
  if (calls.sync != nullptr) times += calls.sync->TakeTimes();
  // A wait for a seal may last longer than this worker's own transfers.
  times[Phase::kCommunication] =
      std::max(times[Phase::kCommunication], times[Phase::kExposedCommunication]);
  calls.on_step(pending_->TakeReports(calls.iteration.Lap()));
  current_step_ = computing_;
}

absl::StatusOr<size_t> Trainer::AwaitBucket(size_t wanted, Calls& calls) {
  Stopwatch watch;
  absl::Duration waited;  // the reducer counts it
  BeginWait(pending_->step(), Bucket(static_cast<int>(wanted)));
  absl::StatusOr<size_t> bucket = calls.sync->NextBucket();
  Lap(&watch, "wait", pending_->step(), &waited);
  return bucket;
}

// Waits for the step before the pending one, or for the pending one once it is fully applied. The
// time is exposed communication of the pending step: the other workers have not finished theirs.
absl::Status Trainer::AwaitSeal() {
  const absl::optional<Step> unsealed = pending_->undoable();
  if (!unsealed.has_value()) return absl::OkStatus();
  Stopwatch watch;
  // A worker that holds up the seal may compute in the pending step already.
  BeginWait(pending_->begun() ? pending_->step() : *unsealed);
  if (absl::Status sealed = options_.seal.await(*unsealed); !sealed.ok()) return sealed;
  Lap(&watch, "wait", *unsealed, &pending_->times()[Phase::kExposedCommunication]);
  Begin("forward", computing_);
  pending_->Keep();
  return absl::OkStatus();
}

void Trainer::BeginAt(Step first) {
  pending_->Rewind(first);
  next_step_ = current_step_ = first;
}

void Trainer::Rewind(Step first) {
  pending_->Rewind(first);
  begun_ = {};
  next_step_ = first;
  reducer_->Rewind();
}

absl::optional<absl::Time> Trainer::BegunAt(Step step) const {
  const auto& begun = begun_[step.value() % begun_.size()];
  if (!begun.has_value() || begun->first != step) return absl::nullopt;
  return begun->second;
}

// Until the parameters in `buckets` are up to date, updates all buckets that have arrived, so that
// no early bucket is left for later.
absl::Status Trainer::PassGate(const std::vector<size_t>& buckets, Calls& calls) {
  if (!pending_->begun()) return absl::OkStatus();
  if (pending_->undoable().has_value() && *pending_->undoable() != pending_->step()) {
    if (absl::Status sealed = AwaitSeal(); !sealed.ok()) return sealed;
  }
  if (options_.seal.ready) pending_->MakeUndoable();
  for (const size_t wanted : buckets) {
    while (!pending_->IsUpdated(wanted)) {
      const absl::StatusOr<size_t> bucket =
          calls.sync != nullptr ? AwaitBucket(wanted, calls) : wanted;
      if (!bucket.ok()) return bucket.status();
      Update(*bucket);
    }
  }
  return pending_->IsComplete() ? EndStep(calls) : absl::OkStatus();
}

// All updates of the pending step are done.
absl::Status Trainer::EndStep(Calls& calls) {
  if (absl::Status ended = pending_->End(); !ended.ok()) return ended;
  Report(calls);
  const absl::optional<Step> unsealed = pending_->undoable();
  if (unsealed.has_value()) options_.seal.ready(*unsealed, pending_->TakeDigests());
  return absl::OkStatus();
}

absl::Status Trainer::RunRank(const Batch& batch, Rank rank, Calls& calls) {
  StepRecord report;
  report.step = batch.step;
  report.rank = rank;
  report.epoch = batch.epoch;
  report.samples = batch.size();
  report.padded = batch.padded;
  report.samples_digest = batch.digest;
  report.lr = options_.learning_rate(batch.step);
  absl::Status status = Compute(batch, rank, calls, &report);
  if (status.ok() && reducer_->updater() == Updater::kRank) {
    Stopwatch watch;
    pending_->OnRankDone(reports_.size(), rank, report.lr);
    Lap(&watch, "optimizer", computing_, &times_[Phase::kOptimizer]);
  }
  reports_.push_back(report);
  return status;
}

// The updates are done; the sync now makes its exchange.
absl::Status Trainer::EndOwnStep(Calls& calls) {
  Stopwatch watch;
  absl::Duration taken;  // the sync counts it
  BeginWait(computing_);
  absl::Status status = calls.sync->OnStepDone(computing_);
  Lap(&watch, "exchange", computing_, &taken);
  if (status.ok()) Report(calls);
  return status;
}

// `wait` began with the request for the first rank's batch.
absl::Status Trainer::RunStep(absl::StatusOr<Batch> batch, Stopwatch wait, Calls& calls) {
  computing_ = batch->step;
  next_step_ = Step(computing_.value() + 1);
  begun_[computing_.value() % begun_.size()] = {computing_, wait.last()};
  reports_.clear();
  times_ = {};
  if (!pending_->begun()) current_step_ = computing_;
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
  pending_->Begin(std::exchange(reports_, {}), times_, calls.sync != nullptr);
  if (reducer_->updater() == Updater::kRank) return EndOwnStep(calls);
  return IsLate(computing_) ? absl::OkStatus() : PassGate(all_buckets_, calls);
}

// Whether the updates of `step` run within the next step's forward pass.
bool Trainer::IsLate(Step step) const {
  return options_.updates_late && !(options_.is_border && options_.is_border(step));
}

absl::Status Trainer::RunSteps(Calls& calls) {
  while (true) {
    Begin("data", next_step_);
    if (options_.before_step) options_.before_step(next_step_);
    const Stopwatch wait;
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

// Drops all of a step that was not completed.
void Trainer::Reset() {
  pending_->Drop();
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
