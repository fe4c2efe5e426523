#ifndef GRADWIRE_WORKER_RUN_EVALUATOR_H_
#define GRADWIRE_WORKER_RUN_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/telemetry/step_record.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/exchange.h"
#include "worker/data/batches.h"
#include "worker/ddp/reducer.h"
#include "worker/learning/losses.h"
#include "worker/models/model.h"

namespace gradwire {

struct Evaluation {
  double loss = 0;      // mean over all samples
  double accuracy = 0;  // share of samples whose highest score is their label, 0 … 1
  int64_t samples = 0;
};

// Measures a model on test data, as each rank that this worker carries sees it. Every rank
// evaluates all batches, with its own buffers; or, if the buffers of all ranks are equal,
// the batches are divided among the ranks of the run:
//
//   rank 0 of W   batches 0, W, 2 W …      ─┐
//   rank 1        batches 1, W + 1, …      ─┴─ Exchange ─► sums of each batch, on all ranks
//
// Sums are added in the order of the batches, so it comes to the same bits for every W.
// Not thread-safe: everything runs on the trainer's thread.
class Evaluator {
 public:
  // `model`, and `reducer`, which knows the ranks, outlive this object.
  Evaluator(Model* model, Reducer* reducer, std::unique_ptr<const EvaluationBatches> batches,
            Loss loss);

  // What ranks exchange in a divided evaluation: a bucket of bytes from each of `world_size`
  // ranks, and, as every layout needs one of floats, the mean of nothing.
  std::vector<BucketSpec> BucketSpecs(int world_size) const;
  // From now on evaluations are divided among the ranks of a run; each is a step of `layout`, which
  // has these buckets, from the view's first on. `exchange`, of that view, is used until the next
  // Divide. Others may be later than this worker by `timeout`.
  void Divide(Exchange* exchange, LayoutId layout, const View& view, absl::Duration timeout);

  // Runs the model, in evaluation mode (training mode is restored), and says in the log what came
  // out. Of each carried rank, in their order.
  //   Cancelled  `stopped`, asked before each batch, was true
  //   Internal   torch threw
  //   or that of the exchange
  // `on_wait` hears when what is left is to wait for other workers; may be empty.
  absl::StatusOr<std::vector<Evaluation>> Run(const std::function<bool()>& stopped,
                                              const std::function<void()>& on_wait = nullptr);

 private:
  // Of one batch; what travels.
  struct BatchSums {
    double loss = 0;
    int64_t correct = 0;
  };
  // Sums of all batches: rank after rank, each the same number, the last one perhaps unused.
  using AllSums = std::vector<BatchSums>;

  int64_t BatchesOfARank(int world_size) const;
  absl::Status Compute(Rank rank, const std::function<bool()>& stopped, AllSums* all);
  absl::Status ComputeGuarded(Rank rank, const std::function<bool()>& stopped, AllSums* all);
  absl::Status Share(AllSums* all);
  BatchSums SumsOf(const Batch& batch);
  Evaluation Add(const AllSums& all) const;

  Model* const model_;
  Reducer* const reducer_;
  const std::unique_ptr<const EvaluationBatches> batches_;
  const Loss loss_;

  // Of divided evaluations:
  Exchange* exchange_ = nullptr;  // null: they are not
  LayoutId layout_;
  int world_size_ = 1;  // 1: each rank evaluates all
  absl::Duration timeout_;
  Step next_;
};

// Scores one batch after the other, `steps` of them and all of them again if there are no
// more, with `model` in evaluation mode. `on_step` hears of each; its phases are data, and
// forward, which is the model alone, without the loss. `stopped` is asked before each: true
// ends it with Cancelled. Returns the SHA-256 of all scores of the first pass over the
// batches. Internal if torch throws.
absl::StatusOr<std::string> Infer(Model& model, const EvaluationBatches& batches, int64_t steps,
                                  const std::function<void(const StepRecord&)>& on_step,
                                  const std::function<bool()>& stopped);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_EVALUATOR_H_
