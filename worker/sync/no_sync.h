#ifndef GRADWIRE_WORKER_SYNC_NO_SYNC_H_
#define GRADWIRE_WORKER_SYNC_NO_SYNC_H_

#include <memory>

#include "worker/sync/synchronizer.h"

namespace gradwire {

// One process alone: its own gradient is the average.
class NoSync : public Synchronizer {
 public:
  bool averages() const override { return false; }
  absl::Status BeforeOptimizer(Step, const StepBuckets&, absl::Time) override {
    return absl::OkStatus();
  }
  ExchangeTimes times() const override { return {}; }
};

std::unique_ptr<Synchronizer> MakeNoSync(Backend* backend);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SYNC_NO_SYNC_H_
