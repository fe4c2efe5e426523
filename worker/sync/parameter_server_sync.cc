#include <utility>

#include "worker/sync/synchronizer.h"

namespace gradwire {
namespace {

// Pushes gradients as backward completes them, in the order of DdpSync. The next forward pass
// begins with the pulled parameters. The aggregators bound the lag between ranks (see StaleClocks).
class ParameterServerSync : public Synchronizer {
 public:
  ParameterServerSync(Reducer* reducer, const SyncOptions& options)
      : Synchronizer(reducer), options_(options) {}

  void Attach(Exchange* exchange, LayoutId layout, std::vector<Rank> ranks) override {
    exchange_ = exchange;
    Synchronizer::Attach(exchange, layout, std::move(ranks));
  }
  absl::Status Start() override { return reducer().StartServed(options_.step_timeout); }

  void OnForwardDone(Rank rank) override {
    if (rank == reducer().ranks().front()) {
      exchange_->SetRate(options_.learning_rate(step_));
      ++step_;
    }
    const size_t buffers = reducer().gradient_buckets();
    if (reducer().bucket_count() > buffers) reducer().Contribute(buffers, rank);
  }
  void OnBucketReady(size_t bucket, Rank rank) override { reducer().Contribute(bucket, rank); }
  void OnBackwardDone(Rank rank) override { reducer().ContributeRest({rank}); }

 private:
  const SyncOptions options_;
  Exchange* exchange_ = nullptr;  // from Attach on
  Step step_;                     // the next one
};

}  // namespace

std::unique_ptr<Synchronizer> MakeParameterServerSync(Reducer* reducer,
                                                      const SyncOptions& options) {
  return std::make_unique<ParameterServerSync>(reducer, options);
}

}  // namespace gradwire
