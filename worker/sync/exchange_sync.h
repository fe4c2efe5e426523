#ifndef GRADWIRE_WORKER_SYNC_EXCHANGE_SYNC_H_
#define GRADWIRE_WORKER_SYNC_EXCHANGE_SYNC_H_

#include "worker/sync/step_transfers.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// What syncs that use a back end have in common: all but when buckets are
// handed in. By default that is after backward, all at once.
class ExchangeSync : public Synchronizer {
 public:
  // `backend` outlives this object.
  explicit ExchangeSync(Backend* backend) : transfers_(backend) {}

  bool averages() const override { return true; }
  bool updates_late() const override { return false; }
  void OnForwardDone(Step step, const StepBuckets& buckets, absl::Duration timeout) override {
    transfers_.Begin(step, buckets, timeout);
  }
  void OnBucketReady(size_t) override {}
  void OnBackwardDone() override { transfers_.HandInRest(); }
  absl::StatusOr<size_t> NextBucket() override { return transfers_.Next(); }
  void Abandon(const absl::Status& reason) override { transfers_.Abandon(reason); }
  ExchangeTimes times() const override { return transfers_.times(); }

 protected:
  StepTransfers& transfers() { return transfers_; }

 private:
  StepTransfers transfers_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_EXCHANGE_SYNC_H_
