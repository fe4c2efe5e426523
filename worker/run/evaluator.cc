#include "worker/run/evaluator.h"

#include <spdlog/spdlog.h>

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

absl::StatusOr<std::vector<Evaluation>> EvaluateRanks(Model& model, Reducer& reducer, bool alike,
                                                      const EvaluationBatches& batches,
                                                      const std::function<bool()>& stopped) {
  std::vector<Evaluation> evaluations;
  for (const Rank rank : reducer.ranks()) {
    if (alike && !evaluations.empty()) {
      evaluations.push_back(evaluations.front());
      continue;
    }
    reducer.BeginForward(rank);
    absl::StatusOr<Evaluation> evaluation = Evaluate(model, batches, stopped);
    if (!evaluation.ok()) return evaluation.status();
    spdlog::info("test loss {:.4f}, accuracy {:.2f} % ({} of {})", evaluation->loss,
                 100 * evaluation->accuracy,
                 static_cast<int64_t>(evaluation->accuracy * evaluation->samples + 0.5),
                 evaluation->samples);
    evaluations.push_back(*evaluation);
  }
  return evaluations;
}

}  // namespace gradwire
