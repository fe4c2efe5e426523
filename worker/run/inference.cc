#include "worker/run/inference.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/stopwatch.h"
#include "worker/ddp/hash.h"

namespace gradwire {
namespace {

StepRecord RecordOf(const Batch& batch, const torch::Tensor& scores) {
  StepRecord record;
  record.samples = batch.size();
  record.loss = torch::nn::functional::cross_entropy(scores, batch.labels).item<double>();
  record.correct = scores.argmax(1).eq(batch.labels).sum().item<int64_t>();
  return record;
}

absl::StatusOr<std::string> Run(Model& model, const EvaluationBatches& batches, int64_t steps,
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
    StepRecord record = RecordOf(batch, scores);
    record.step = Step(static_cast<uint64_t>(step));
    record.epoch = step / batches.count();
    record.phases = phases;
    record.iteration = iteration.Lap();
    on_step(record);
  }
  return Sha256(first_pass);
}

}  // namespace

absl::StatusOr<std::string> Infer(Model& model, const EvaluationBatches& batches, int64_t steps,
                                  const std::function<void(const StepRecord&)>& on_step,
                                  const std::function<bool()>& stopped) {
  model.eval();
  try {
    return Run(model, batches, steps, on_step, stopped);
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("inference: torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("inference: ", error.what()));
  }
}

}  // namespace gradwire
