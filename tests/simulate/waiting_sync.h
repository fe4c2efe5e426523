#ifndef GRADWIRE_TESTS_SIMULATE_WAITING_SYNC_H_
#define GRADWIRE_TESTS_SIMULATE_WAITING_SYNC_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/sync/synchronizer.h"

namespace gradwire::simulate {

// A sync that has somebody wait in virtual time before the one that it wraps would wait in real
// time, and says which bucket came.
class WaitingSync : public Synchronizer {
 public:
  struct Hooks {
    std::function<absl::Status()> await;    // until a bucket is there, or an error
    std::function<void(size_t)> on_bucket;  // it was taken, and is about to be applied
    std::function<void()> on_hand_in;
  };

  WaitingSync(Reducer* reducer, std::unique_ptr<Synchronizer> inner, Hooks hooks)
      : Synchronizer(reducer), inner_(std::move(inner)), hooks_(std::move(hooks)) {}

  std::vector<BucketSpec> BucketSpecs() const override { return inner_->BucketSpecs(); }
  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) override {
    inner_->Attach(exchange, layout, std::move(ranks));
  }
  void OnForwardDone(Rank rank) override { inner_->OnForwardDone(rank); }
  void OnBucketReady(size_t bucket, Rank rank) override {
    inner_->OnBucketReady(bucket, rank);
    hooks_.on_hand_in();
  }
  void OnBackwardDone(Rank rank) override { inner_->OnBackwardDone(rank); }
  absl::StatusOr<size_t> NextBucket() override {
    if (absl::Status there = hooks_.await(); !there.ok()) return there;
    absl::StatusOr<size_t> bucket = inner_->NextBucket();
    if (bucket.ok()) hooks_.on_bucket(*bucket);
    return bucket;
  }
  PhaseTimes TakeTimes() override { return inner_->TakeTimes(); }
  void Abandon(const absl::Status& reason) override { inner_->Abandon(reason); }

 private:
  const std::unique_ptr<Synchronizer> inner_;
  const Hooks hooks_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_WAITING_SYNC_H_
