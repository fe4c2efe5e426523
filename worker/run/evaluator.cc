#include "worker/run/evaluator.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/backends/exchange.h"
#include "worker/ddp/model_layout.h"

namespace gradwire {

namespace {

void Log(const Evaluation& evaluation) {
  const auto samples = static_cast<double>(evaluation.samples);
  spdlog::info("test loss {:.4f}, accuracy {:.2f} % ({} of {})", evaluation.loss,
               100 * evaluation.accuracy, static_cast<int64_t>(evaluation.accuracy * samples + 0.5),
               evaluation.samples);
}

}  // namespace

Evaluator::Evaluator(Model* model, Reducer* reducer,
                     std::unique_ptr<const EvaluationBatches> batches, Loss loss)
    : model_(model), reducer_(reducer), batches_(std::move(batches)), loss_(loss) {}

int64_t Evaluator::BatchesOfARank(int world_size) const {
  return (batches_->count() - 1) / world_size + 1;
}

std::vector<BucketSpec> Evaluator::BucketSpecs(int world_size) const {
  const uint64_t bytes = static_cast<uint64_t>(BatchesOfARank(world_size)) * sizeof(BatchSums);
  std::vector<BucketSpec> specs;
  for (int rank = 0; rank < world_size; ++rank) {
    specs.push_back({bytes, v1::DTYPE_BYTES, Rank(rank)});
  }
  specs.push_back({sizeof(float), v1::DTYPE_FLOAT32});
  return specs;
}

void Evaluator::Divide(Exchange* exchange, LayoutId layout, const View& view,
                       absl::Duration timeout) {
  exchange_ = exchange;
  layout_ = layout;
  world_size_ = view.world_size;
  next_ = view.first_step;
  timeout_ = timeout;
}

Evaluator::BatchSums Evaluator::SumsOf(const Batch& batch) {
  const torch::Tensor scores = model_->forward(batch.images);
  return {loss_(scores, batch.labels, /*sum=*/true).item<double>(),
          scores.argmax(1).eq(batch.labels).sum().item<int64_t>()};
}

absl::Status Evaluator::Compute(Rank rank, const std::function<bool()>& stopped, AllSums* all) {
  const torch::NoGradGuard no_grad;
  const int64_t first = exchange_ == nullptr ? 0 : rank.value();
  BatchSums* sums = all->data() + first * BatchesOfARank(world_size_);
  for (int64_t i = first; i < batches_->count(); i += world_size_) {
    if (stopped()) return absl::CancelledError("the evaluation was stopped");
    *sums++ = SumsOf(batches_->Make(i));
  }
  return absl::OkStatus();
}

absl::Status Evaluator::ComputeGuarded(Rank rank, const std::function<bool()>& stopped,
                                       AllSums* all) {
  reducer_->BeginForward(rank);
  model_->eval();
  absl::Status status;
  try {
    status = Compute(rank, stopped, all);
  } catch (const c10::Error& error) {
    status =
        absl::InternalError(absl::StrCat("evaluation: torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    status = absl::InternalError(absl::StrCat("evaluation: ", error.what()));
  }
  model_->train();
  return status;
}

absl::Status Evaluator::Share(AllSums* all) {
  const size_t bytes = all->size() / static_cast<size_t>(world_size_) * sizeof(BatchSums);
  std::vector<WholeBucket> buckets;
  float mean = 0;
  const float nothing = 0;
  for (int rank = 0; rank < world_size_; ++rank) {
    auto* const sums = reinterpret_cast<uint8_t*>(all->data()) + static_cast<size_t>(rank) * bytes;
    buckets.push_back({{sums, bytes}, {}});
  }
  WholeBucket gate{{reinterpret_cast<uint8_t*>(&mean), sizeof(mean)}, {}};
  for (const Rank rank : reducer_->ranks()) {
    WholeBucket& own = buckets[static_cast<size_t>(rank.value())];
    own.terms = {{rank, own.result}};
    gate.terms.push_back({rank, {reinterpret_cast<const uint8_t*>(&nothing), sizeof(nothing)}});
  }
  buckets.push_back(std::move(gate));
  const absl::Status status =
      WholeStep(exchange_, layout_, next_, buckets, SteadyNow() + timeout_).Wait();
  ++next_;
  return status;
}

Evaluation Evaluator::Add(const AllSums& all) const {
  BatchSums total;
  for (int64_t i = 0; i < batches_->count(); ++i) {
    const BatchSums& sums = all[i % world_size_ * BatchesOfARank(world_size_) + i / world_size_];
    total.loss += sums.loss;
    total.correct += sums.correct;
  }
  const auto samples = static_cast<double>(batches_->samples());
  return {total.loss / samples, static_cast<double>(total.correct) / samples, batches_->samples()};
}

absl::StatusOr<std::vector<Evaluation>> Evaluator::Run(const std::function<bool()>& stopped,
                                                       const std::function<void()>& on_wait) {
  const bool divided = exchange_ != nullptr;
  AllSums all(static_cast<size_t>(BatchesOfARank(world_size_) * world_size_));
  std::vector<Evaluation> evaluations;
  for (const Rank rank : reducer_->ranks()) {
    absl::Status computed = ComputeGuarded(rank, stopped, &all);
    if (!computed.ok()) return computed;
    if (!divided) evaluations.push_back(Add(all));
  }
  if (divided) {
    if (on_wait) on_wait();
    if (absl::Status shared = Share(&all); !shared.ok()) return shared;
    evaluations.assign(reducer_->ranks().size(), Add(all));
  }
  for (size_t i = 0; i < (divided ? 1 : evaluations.size()); ++i) Log(evaluations[i]);
  return evaluations;
}

namespace {

StepRecord RecordOf(const Batch& batch, const torch::Tensor& scores, Loss loss) {
  StepRecord record;
  record.samples = batch.size();
  record.loss = loss(scores, batch.labels, /*sum=*/false).item<double>();
  record.correct = scores.argmax(1).eq(batch.labels).sum().item<int64_t>();
  return record;
}

absl::StatusOr<std::string> Run(Model& model, const EvaluationBatches& batches, Loss loss,
                                int64_t steps,
                                const std::function<void(const StepRecord&)>& on_step,
                                const std::function<bool()>& stopped) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> first_pass;
  Stopwatch iteration;
  for (int64_t step = 0; step < steps; ++step) {
    if (stopped()) return absl::CancelledError("the inference was stopped");
    PhaseTimes phases;
    Stopwatch watch;
    const Batch batch = batches.Make(step % batches.count());
    phases[Phase::kData] = watch.Lap();
    const torch::Tensor scores = model.forward(batch.images);
    phases[Phase::kForward] = watch.Lap();
    if (step < batches.count()) first_pass.push_back(scores.contiguous());
    StepRecord record = RecordOf(batch, scores, loss);
    record.step = Step(static_cast<uint64_t>(step));
    record.epoch = step / batches.count();
    record.phases = phases;
    record.iteration = iteration.Lap();
    on_step(record);
  }
  return Sha256(first_pass);
}

}  // namespace

absl::StatusOr<std::string> Infer(Model& model, const EvaluationBatches& batches, Loss loss,
                                  int64_t steps,
                                  const std::function<void(const StepRecord&)>& on_step,
                                  const std::function<bool()>& stopped) {
  model.eval();
  try {
    return Run(model, batches, loss, steps, on_step, stopped);
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("inference: torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("inference: ", error.what()));
  }
}

}  // namespace gradwire
