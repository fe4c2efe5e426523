#ifndef GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_
#define GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_

#include <memory>
#include <vector>

#include "worker/ddp/bucket_tracker.h"
#include "worker/sync/pseudo_gradient.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// Every rank trains its own model. After every H steps, and after the last step of the run, the
// ranks exchange their models and combine them into one (see PseudoGradient). With a delay of D
// steps the ranks continue to train meanwhile:
//
//   D = 0   train H ── exchange ── train H ── exchange ── …
//   D > 0   train H ── train D ─┬─ train H − D ── train D ─┬─ …
//               └── exchange ───┘        └──── exchange ───┘    adds the result to what was
//                                                               trained meanwhile
//
// The last exchange is always waited for, so all ranks end with one model; an exchange that is
// still under way is used first. All ranks use a delayed exchange in the same step, whenever it
// arrives, so the result does not depend on the speed of links.
//
// On the wire an exchange is a step of its layout, counted separately.
class LocalSync : public Synchronizer {
 public:
  // `reducer` must have own models (Updater::kRank).
  LocalSync(Reducer* reducer, const SyncOptions& options, const OuterStep& outer);
  ~LocalSync() override;

  std::vector<BucketSpec> BucketSpecs() const override;
  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) override;
  void OnBackwardDone(Rank /*rank*/) override {}
  absl::Status OnStepDone(Step step) override;
  // Returns the part of the transfers since the last call. Phase optimizer: the time for
  // pseudo-gradients, the outer step and the change of the models.
  PhaseTimes TakeTimes() override;
  void Abandon(const absl::Status& reason) override;
  void BeginAt(Step first) override;
  bool IsAtBorder() const override { return at_border_; }
  PseudoGradient* outer() override { return pseudo_gradient_.get(); }
  // Makes the model the mean of all ranks' current models. Unless all are equal, an exchange
  // computes it, and its bytes count as sent. Takes 2 · ranks + 3 times the model's memory
  // meanwhile.
  absl::Status BeginEvaluation() override;
  void EndEvaluation() override;

 private:
  bool IsLast(Step step) const;
  bool IsDue(Step step) const;
  absl::Status ExchangeIfDue(Step step);
  void Send(PseudoGradient& pseudo_gradient);
  absl::Status Arrive();
  absl::Status Use(bool one);
  void Give(PseudoGradient& pseudo_gradient, bool one);
  absl::Status MakeAllTheirMean();
  std::vector<torch::Tensor> Copies();
  std::vector<std::vector<torch::Tensor>> Tensors() const;
  void CountTransfers();

  const SyncOptions options_;
  const OuterStep outer_;
  std::unique_ptr<PseudoGradient> pseudo_gradient_;  // from Attach on
  BucketTracker exchange_;
  Step next_;                                     // of the layout
  bool under_way_ = false;                        // contributed and not used
  bool arrived_ = false;                          // all results have arrived
  bool at_border_ = false;                        // the last step used an exchange
  Step due_;                                      // use the exchange after this step
  bool one_ = true;                               // all models equal the anchor
  std::vector<std::vector<torch::Tensor>> kept_;  // models during an evaluation, by rank
  PhaseTimes times_;                              // not taken yet
  PhaseTimes counted_;                            // from the exchange
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_
