#include "worker/sync/synchronizer.h"

namespace gradwire {
namespace {

// Exchanges one bucket after the other, from the back of the model to the front, each when the
// one before is through: with a bucket for each parameter it is the loop over parameters that
// courses begin with.
class PerLayerSync : public Synchronizer {
 public:
  using Synchronizer::Synchronizer;

  void OnBackwardDone(Rank rank) override {
    if (IsLast(rank)) next_ = 0;
  }
  absl::StatusOr<size_t> NextBucket() override {
    for (const Rank rank : reducer().ranks()) reducer().HandIn(next_, rank);
    ++next_;
    return reducer().NextBucket();
  }

 private:
  size_t next_ = 0;  // bucket to be handed in
};

}  // namespace

std::unique_ptr<Synchronizer> MakePerLayerSync(Reducer* reducer, const SyncOptions&) {
  return std::make_unique<PerLayerSync>(reducer);
}

}  // namespace gradwire
