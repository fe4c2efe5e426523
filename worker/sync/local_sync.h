#ifndef GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_
#define GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_

#include <memory>
#include <vector>

#include "worker/ddp/bucket_tracker.h"
#include "worker/sync/pseudo_gradient.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// Every rank trains a model of its own; after every H steps, and after the run's last one, models
// are exchanged and made one (see PseudoGradient). With a delay of D steps the ranks go on training
// meanwhile:
//
//   D = 0   train H ── exchange ── train H ── exchange ── …
//   D > 0   train H ── train D ─┬─ train H − D ── train D ─┬─ …
//               └── exchange ───┘        └──── exchange ───┘    what came is added to what was
//                                                               trained meanwhile
//
// The last step's exchange is always waited for, so all ranks end with one model; if one is under
// way then, it is used first. A delayed exchange is used in the same step on all ranks, whenever it
// comes: the result does not depend on how fast links are.
//
// On the wire an exchange is a step of its layout, counted by itself.
class LocalSync : public Synchronizer {
 public:
  // `reducer` has models of their own.
  LocalSync(Reducer* reducer, const SyncOptions& options, const OuterStep& outer);
  ~LocalSync() override;

  std::vector<BucketSpec> BucketSpecs() const override;
  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) override;
  void OnBackwardDone(Rank /*rank*/) override {}
  absl::Status OnStepDone(Step step) override;
  // Of the transfers the part that fell into the time since the last call; as optimizer, what
  // measuring, the outer step and the change of the models took.
  PhaseTimes TakeTimes() override;
  void Abandon(const absl::Status& reason) override;
  // The mean of all ranks' models as they are now. It is found by an exchange, whose bytes count as
  // sent, unless they are one. Takes 2 · ranks + 3 times the model's memory for so long.
  absl::Status BeginEvaluation() override;
  void EndEvaluation() override;

  // For a checkpoint, when no exchange is under way; see PseudoGradient. Not before Attach.
  PseudoGradient& pseudo_gradient() { return *pseudo_gradient_; }

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
  bool arrived_ = false;                          // all of it is there
  Step due_;                                      // after which it is to be used
  bool one_ = true;                               // all models are the anchor
  std::vector<std::vector<torch::Tensor>> kept_;  // models during an evaluation, by rank
  PhaseTimes times_;                              // not taken yet
  PhaseTimes counted_;                            // of the exchange's
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_LOCAL_SYNC_H_
