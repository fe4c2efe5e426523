#include "worker/backends/traced_backend.h"

#include <utility>

#include "absl/time/clock.h"

namespace gradwire {
namespace {

class TracedBackend : public Backend {
 public:
  TracedBackend(std::unique_ptr<Backend> backend, OnSpan on_span)
      : on_span_(std::move(on_span)), backend_(std::move(backend)) {}

  absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) override {
    return backend_->OnView(view, std::move(buckets));
  }
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override {
    backend_->AllReduceAsync(key, terms, mean, deadline, Traced(key, std::move(done)));
  }
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                      Done done) override {
    backend_->BroadcastAsync(key, bytes, deadline, Traced(key, std::move(done)));
  }
  void Cancel(absl::Status reason) override { backend_->Cancel(std::move(reason)); }
  absl::Status Finish(absl::Time deadline) override { return backend_->Finish(deadline); }
  TransferTotals totals() const override { return backend_->totals(); }
  absl::optional<Rank> suspect() const override { return backend_->suspect(); }
  grpc::Service* service() override { return backend_->service(); }

 private:
  Done Traced(const ReduceKey& key, Done done) const {
    return [this, key, begin = absl::Now(), done = std::move(done)](absl::Status status) {
      on_span_({TraceSpan::Lane::kTransfer, "bucket", key.step, key.bucket, begin, absl::Now()});
      done(std::move(status));
    };
  }

  const OnSpan on_span_;
  const std::unique_ptr<Backend> backend_;  // ends first: its threads call on_span_
};

}  // namespace

std::unique_ptr<Backend> TraceBackend(std::unique_ptr<Backend> backend, OnSpan on_span) {
  return std::make_unique<TracedBackend>(std::move(backend), std::move(on_span));
}

}  // namespace gradwire
