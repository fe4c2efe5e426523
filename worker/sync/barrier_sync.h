#ifndef GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_
#define GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_

#include <memory>

#include "worker/sync/synchronizer.h"

namespace gradwire {

// After backward, hands all buckets to the back end at once and waits for all:
// communication and computation never overlap.
class BarrierSync : public Synchronizer {
 public:
  // `backend` outlives this object.
  explicit BarrierSync(Backend* backend) : backend_(backend) {}

  bool averages() const override { return true; }
  absl::Status BeforeOptimizer(Step step, const StepBuckets& buckets, absl::Time deadline) override;
  ExchangeTimes times() const override { return times_; }

 private:
  Backend* const backend_;
  ExchangeTimes times_;
};

std::unique_ptr<Synchronizer> MakeBarrierSync(Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_BARRIER_SYNC_H_
