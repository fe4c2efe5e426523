#ifndef GRADWIRE_WORKER_RUN_EVALUATOR_H_
#define GRADWIRE_WORKER_RUN_EVALUATOR_H_

#include <algorithm>
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
  double accuracy = 0;  // share of samples whose highest score is at their label, 0 … 1
  int64_t samples = 0;
};

// The numbers of steps after which a model is evaluated: all multiples of `every` (0: none), and
// `total`, the number of the run's steps. Independent of where training began.
struct EvaluationSteps {
  int64_t every = 0;
  int64_t total = 0;

  bool Has(int64_t steps) const { return steps == total || (every > 0 && steps % every == 0); }
  // Returns the next one after `steps`, which is less than `total`.
  int64_t After(int64_t steps) const {
    return every == 0 ? total : std::min(total, (steps / every + 1) * every);
  }
};

// Evaluates a model on test data for each rank that this worker carries. Every rank evaluates all
// batches with its own buffers. If the buffers of all ranks are equal, the ranks of the run divide
// the batches:
//
//   rank 0 of W   batches 0, W, 2 W …      ─┐
//   rank 1        batches 1, W + 1, …      ─┴─ Exchange ─► sums of each batch, on all ranks
//
// Sums are added in the order of the batches, so every W gives the same bits. Not thread-safe:
// everything runs on the trainer's thread.
class Evaluator {
 public:
  // `model` and `reducer`, which knows the ranks, must outlive this object.
  Evaluator(Model* model, Reducer* reducer, std::unique_ptr<const EvaluationBatches> batches,
            Loss loss);

  // Returns the buckets of a divided evaluation: a bucket of bytes from each of `world_size` ranks,
  // and an unused bucket of floats, because every layout needs one.
  std::vector<BucketSpec> BucketSpecs(int world_size) const;
  // From now on the ranks of a run divide evaluations. Each evaluation is a step of `layout`, which
  // has these buckets, counted from the view's first. `exchange`, of that view, is used until the
  // next Divide. `timeout` bounds the wait for other workers.
  void Divide(Exchange* exchange, LayoutId layout, const View& view, absl::Duration timeout);

  // Runs the model in evaluation mode (and restores training mode), and logs the results. Returns
  // one for each carried rank, in order. `on_wait` is called when only a wait for other workers is
  // left; may be empty.
  //   Cancelled  `stopped`, called before each batch, returned true
  //   Internal   torch threw
  //   or the exchange's error
  absl::StatusOr<std::vector<Evaluation>> Run(const std::function<bool()>& stopped,
                                              const std::function<void()>& on_wait = nullptr);

 private:
  // The sums of one batch, as exchanged.
  struct BatchSums {
    double loss = 0;
    int64_t correct = 0;
  };
  // Sums of all batches: rank after rank, the same number for each; the last one may be unused.
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

  // If evaluations are divided:
  Exchange* exchange_ = nullptr;  // null: they are not
  LayoutId layout_;
  int world_size_ = 1;  // 1: each rank evaluates all batches
  absl::Duration timeout_;
  Step next_;
};

// Scores `steps` batches with `model` in evaluation mode, starting over at the end of the data.
// `on_step` gets a record of each, with the mean of `loss`; its phases are data and forward, which
// is the model without the loss. Returns Cancelled if `stopped`, called before each batch, returns
// true; Internal if torch throws; else the SHA-256 of all scores of the first pass over the
// batches.
absl::StatusOr<std::string> Infer(Model& model, const EvaluationBatches& batches, Loss loss,
                                  int64_t steps,
                                  const std::function<void(const StepRecord&)>& on_step,
                                  const std::function<bool()>& stopped);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_EVALUATOR_H_
