#ifndef GRADWIRE_WORKER_SYNC_NO_SYNC_H_
#define GRADWIRE_WORKER_SYNC_NO_SYNC_H_

#include <memory>

#include "worker/sync/synchronizer.h"

namespace gradwire {

// One process alone: its own gradient is the average.
class NoSync : public Synchronizer {
 public:
  bool averages() const override { return false; }
  bool updates_late() const override { return false; }
  void OnForwardDone(Step, const StepBuckets&, absl::Duration) override {}
  void OnBucketReady(size_t) override {}
  void OnBackwardDone() override {}
  absl::StatusOr<size_t> NextBucket() override;
  void Abandon(const absl::Status&) override {}
  ExchangeTimes times() const override { return {}; }
};

std::unique_ptr<Synchronizer> MakeNoSync(Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_NO_SYNC_H_
