#include "worker/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

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

// Time since the last call, or since construction.
class Stopwatch {
 public:
  absl::Duration Lap() {
    const absl::Time now = absl::Now();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = absl::Now();
};

absl::Status Stopped() { return absl::CancelledError("the worker was told to stop"); }

}  // namespace

Trainer::Trainer(std::shared_ptr<Model> model, const TrainerOptions& options)
    : model_(std::move(model)),
      options_(options),
      gradient_(model_->parameters(), options.bucket_cap_bytes),
      buffers_(PackFor(*model_, options)),
      optimizer_(model_->parameters(), SgdOptions(options)) {}

std::vector<BucketSpec> Trainer::BucketSpecs() const {
  std::vector<BucketSpec> specs = gradient_.Specs();
  if (!buffers_.empty()) specs.push_back({buffers_.size(), v1::DTYPE_BYTES});
  return specs;
}

StepBuckets Trainer::Buckets() {
  StepBuckets buckets;
  for (size_t i = 0; i < gradient_.bucket_count(); ++i) {
    buckets.gradients.push_back({gradient_.local(i), gradient_.mean(i)});
  }
  buckets.buffers = buffers_.bytes();
  return buckets;
}

// Averages gradients, and gives all ranks the buffers of rank 0.
absl::Status Trainer::Exchange(Synchronizer& sync) {
  if (!sync.averages()) return absl::OkStatus();
  buffers_.Pack();
  const absl::Time deadline = absl::Now() + options_.step_timeout;
  absl::Status status = sync.BeforeOptimizer(current_step_, Buckets(), deadline);
  if (!status.ok()) return status;
  buffers_.Unpack();
  gradient_.ShowMean();
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Trainer::RunStep(const Batch& batch, Synchronizer& sync,
                                            const std::function<bool()>& stopped) {
  StepReport report{batch.step, batch.epoch, batch.size(), batch.padded, 0, {}};
  Stopwatch watch;
  gradient_.StartLocal();
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(model_->forward(batch.images), batch.labels);
  report.loss = loss.item<double>();
  report.times.forward = watch.Lap();
  if (stopped()) return Stopped();
  loss.backward();
  report.times.backward = watch.Lap();
  if (stopped()) return Stopped();
  if (absl::Status status = Exchange(sync); !status.ok()) return status;
  report.times.communication = sync.times().communication;
  report.times.exposed_communication = sync.times().exposed_communication;
  watch.Lap();
  optimizer_.step();
  report.times.optimizer = watch.Lap();
  return report;
}

absl::Status Trainer::Run(const NextBatch& next, Synchronizer& sync, const OnStep& on_step,
                          const std::function<bool()>& stopped) {
  try {
    Stopwatch iteration;
    while (true) {
      Stopwatch wait;
      absl::StatusOr<Batch> batch = next();
      if (stopped()) return Stopped();
      if (absl::IsOutOfRange(batch.status())) return absl::OkStatus();
      if (!batch.ok()) return batch.status();
      const absl::Duration data = wait.Lap();
      current_step_ = batch->step;
      absl::StatusOr<StepReport> report = RunStep(*batch, sync, stopped);
      if (!report.ok()) return report.status();
      report->times.data = data;
      report->times.iteration = iteration.Lap();
      on_step(*report);
    }
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("step ", current_step_.value(), ": torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("step ", current_step_.value(), ": ", error.what()));
  }
}

}  // namespace gradwire
