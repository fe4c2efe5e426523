#include "worker/run/trainer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

torch::optim::SGDOptions SgdOptions(const TrainerOptions& options) {
  return torch::optim::SGDOptions(options.lr)
      .momentum(options.momentum)
      .weight_decay(options.weight_decay);
}

BufferPack PackFor(const Model& model, const TrainerOptions& options) {
  return BufferPack(options.broadcast_buffers ? model.buffers() : std::vector<torch::Tensor>());
}

absl::Status Stopped() { return absl::CancelledError("the worker was told to stop"); }

// The stages of a model, or all of it as one.
std::vector<Stage> StagesOf(Model* model) {
  std::vector<Stage> stages = model->stages();
  if (!stages.empty()) return stages;
  return {{[model](torch::Tensor images) { return model->forward(std::move(images)); }, {}}};
}

void AddOnce(absl::optional<size_t> bucket, std::vector<size_t>* buckets) {
  if (!bucket.has_value()) return;
  if (std::find(buckets->begin(), buckets->end(), *bucket) != buckets->end()) return;
  buckets->push_back(*bucket);
}

void Remove(const torch::Tensor& tensor, std::vector<torch::Tensor>* tensors) {
  const auto is_it = [&](const torch::Tensor& other) { return other.is_same(tensor); };
  tensors->erase(std::remove_if(tensors->begin(), tensors->end(), is_it), tensors->end());
}

}  // namespace

Trainer::Trainer(std::shared_ptr<Model> model, const TrainerOptions& options)
    : model_(std::move(model)),
      options_(options),
      gradient_(model_->parameters(), options.bucket_cap_bytes),
      buffers_(PackFor(*model_, options)),
      hooks_(&gradient_) {
  for (size_t i = 0; i < gradient_.bucket_count(); ++i) {
    optimizers_.emplace_back(gradient_.parameters(i), SgdOptions(options));
  }
  all_buckets_.resize(BucketSpecs().size());
  std::iota(all_buckets_.begin(), all_buckets_.end(), 0);
  stages_ = GateStages();
}

// What no stage names, and the buffers, are wanted by the first one.
std::vector<Trainer::GatedStage> Trainer::GateStages() {
  std::vector<GatedStage> gated;
  std::vector<torch::Tensor> unnamed = model_->parameters();
  for (const Stage& stage : StagesOf(model_.get())) {
    gated.push_back({stage.forward, {}});
    for (const torch::Tensor& parameter : stage.parameters) {
      AddOnce(gradient_.BucketOf(parameter), &gated.back().buckets);
      Remove(parameter, &unnamed);
    }
  }
  for (const torch::Tensor& parameter : unnamed) {
    AddOnce(gradient_.BucketOf(parameter), &gated.front().buckets);
  }
  if (!buffers_.empty()) AddOnce(gradient_.bucket_count(), &gated.front().buckets);
  return gated;
}

std::vector<BucketSpec> Trainer::BucketSpecs() const {
  std::vector<BucketSpec> specs = gradient_.Specs();
  if (!buffers_.empty()) specs.push_back({buffers_.size(), v1::DTYPE_BYTES});
  return specs;
}

void Trainer::BeginExchange(Synchronizer& sync) {
  StepBuckets buckets;
  for (size_t i = 0; i < gradient_.bucket_count(); ++i) {
    buckets.gradients.push_back({gradient_.local(i), gradient_.mean(i)});
  }
  buffers_.Pack();
  buckets.buffers = buffers_.bytes();
  sync.OnForwardDone(computing_, buckets, options_.step_timeout);
  hooks_.Arm([&sync](size_t bucket) { sync.OnBucketReady(bucket); });
}

void Trainer::Backward(const torch::Tensor& loss, bool last, Calls& calls, PhaseTimes* times) {
  Stopwatch watch;
  const bool exchange = last && calls.sync.averages();
  if (exchange) BeginExchange(calls.sync);
  loss.backward();
  hooks_.Disarm();
  if (last) gradient_.FillMissing();
  if (exchange) calls.sync.OnBackwardDone();
  Lap(&watch, "backward", computing_, &times->backward);
}

// The time at gates is that of the step before.
absl::StatusOr<torch::Tensor> Trainer::Forward(torch::Tensor images, Calls& calls,
                                               PhaseTimes* times) {
  for (const GatedStage& stage : stages_) {
    if (absl::Status status = PassGate(stage.buckets, calls); !status.ok()) return status;
    Stopwatch watch;
    images = stage.forward(std::move(images));
    Lap(&watch, "forward", computing_, &times->forward);
  }
  return images;
}

absl::Status Trainer::Compute(const Batch& batch, Calls& calls, StepReport* report) {
  const int64_t size = batch.size();
  const int64_t piece = options_.micro_batch > 0 ? options_.micro_batch : size;
  for (int64_t first = 0; first < size; first += piece) {
    const int64_t count = std::min(piece, size - first);
    absl::StatusOr<torch::Tensor> scores =
        Forward(batch.images.narrow(0, first, count), calls, &report->times);
    if (!scores.ok()) return scores.status();
    Stopwatch watch;
    const torch::Tensor labels = batch.labels.narrow(0, first, count);
    torch::Tensor loss = torch::nn::functional::cross_entropy(*scores, labels);
    // The mean over the batch is the sum of its pieces' shares.
    if (count < size) loss = loss * (static_cast<double>(count) / static_cast<double>(size));
    report->loss += loss.item<double>();
    report->correct += scores->detach().argmax(1).eq(labels).sum().item<int64_t>();
    Lap(&watch, "loss", computing_, &report->times.forward);
    if (calls.stopped()) return Stopped();
    Backward(loss, first + count == size, calls, &report->times);
    if (calls.stopped()) return Stopped();
  }
  return absl::OkStatus();
}

void Trainer::Update(size_t bucket, bool averaged) {
  Stopwatch watch;
  if (bucket == gradient_.bucket_count()) {
    if (averaged) buffers_.Unpack();
  } else {
    optimizers_[bucket].Step(averaged ? gradient_.mean_tensor(bucket)
                                      : gradient_.local_tensor(bucket));
    gradient_.Start(bucket);
  }
  updated_[bucket] = true;
  --to_update_;
  Lap(&watch, "optimizer", pending_->step, &pending_->times.optimizer);
}

void Trainer::Lap(Stopwatch* watch, const char* name, Step step, absl::Duration* phase) const {
  const absl::Time begin = watch->last();
  *phase += watch->Lap();
  if (!options_.on_span) return;
  options_.on_span({TraceSpan::Lane::kCompute, name, step, Bucket(0), begin, watch->last()});
}

void Trainer::Report(Calls& calls) {
  StepReport report = *std::exchange(pending_, absl::nullopt);
  report.times.communication = calls.sync.times().communication;
  report.times.exposed_communication = calls.sync.times().exposed_communication;
  report.times.iteration = calls.iteration.Lap();
  calls.on_step(report);
  current_step_ = computing_;
}

// Until the parameters in `buckets` are up to date, updates whatever can be:
// what comes early is not left for a time when nothing else is to be done.
absl::Status Trainer::PassGate(const std::vector<size_t>& buckets, Calls& calls) {
  if (!pending_.has_value()) return absl::OkStatus();
  for (const size_t wanted : buckets) {
    while (!updated_[wanted]) {
      absl::StatusOr<size_t> bucket = wanted;
      Stopwatch watch;
      absl::Duration waited;  // the sync counts it
      if (calls.sync.averages()) bucket = calls.sync.NextBucket();
      Lap(&watch, "wait", pending_->step, &waited);
      if (!bucket.ok()) return bucket.status();
      Update(*bucket, calls.sync.averages());
    }
  }
  if (to_update_ == 0) Report(calls);
  return absl::OkStatus();
}

absl::Status Trainer::RunSteps(Calls& calls) {
  while (true) {
    Stopwatch wait;
    absl::StatusOr<Batch> batch = calls.next();
    if (calls.stopped()) return Stopped();
    if (!batch.ok()) {
      absl::Status completed = PassGate(all_buckets_, calls);
      return absl::IsOutOfRange(batch.status()) ? completed : batch.status();
    }
    StepReport report{batch->step, batch->epoch, batch->size(), batch->padded, 0, 0, {}};
    Lap(&wait, "data", batch->step, &report.times.data);
    computing_ = batch->step;
    if (!pending_.has_value()) current_step_ = computing_;
    if (absl::Status status = Compute(*batch, calls, &report); !status.ok()) return status;
    pending_ = report;
    updated_.assign(all_buckets_.size(), false);
    to_update_ = all_buckets_.size();
    if (calls.sync.updates_late() && !options_.barrier) continue;
    if (absl::Status status = PassGate(all_buckets_, calls); !status.ok()) return status;
  }
}

// Leaves nothing of a step that was not completed.
void Trainer::Reset() {
  hooks_.Disarm();
  pending_.reset();
  for (size_t i = 0; i < gradient_.bucket_count(); ++i) gradient_.Start(i);
}

absl::Status Trainer::Run(const NextBatch& next, Synchronizer& sync, const OnStep& on_step,
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
  sync.Abandon(status);
  Reset();
  return status;
}

}  // namespace gradwire
