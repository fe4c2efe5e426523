#include "worker/run/evaluator.h"

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

absl::StatusOr<Evaluation> Run(Model& model, const EvaluationBatches& batches,
                               const std::function<bool()>& stopped) {
  torch::NoGradGuard no_grad;
  double loss_sum = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < batches.count(); ++i) {
    if (stopped()) return absl::CancelledError("the evaluation was stopped");
    const Batch batch = batches.Make(i);
    const torch::Tensor scores = model.forward(batch.images);
    const auto sum = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    loss_sum += torch::nn::functional::cross_entropy(scores, batch.labels, sum).item<double>();
    correct += scores.argmax(1).eq(batch.labels).sum().item<int64_t>();
  }
  const auto samples = static_cast<double>(batches.samples());
  return Evaluation{loss_sum / samples, static_cast<double>(correct) / samples, batches.samples()};
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(Model& model, const EvaluationBatches& batches,
                                    const std::function<bool()>& stopped) {
  model.eval();
  absl::StatusOr<Evaluation> result = absl::UnknownError("");
  try {
    result = Run(model, batches, stopped);
  } catch (const c10::Error& error) {
    result =
        absl::InternalError(absl::StrCat("evaluation: torch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    result = absl::InternalError(absl::StrCat("evaluation: ", error.what()));
  }
  model.train();
  return result;
}

}  // namespace gradwire
