#include "worker/sync/synchronizer.h"

namespace gradwire {
namespace {

// After the backward pass of its last rank a worker hands in all buckets at once, and waits
// for all: communication and computation never overlap.
class AfterBackwardSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnBackwardDone(Rank rank) override {
    if (IsLast(rank)) reducer().HandInRest(reducer().ranks());
  }
};

}  // namespace

std::unique_ptr<Synchronizer> MakeAfterBackwardSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<AfterBackwardSync>(reducer);
}

}  // namespace gradwire
