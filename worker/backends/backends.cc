#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "worker/backends/backend.h"
#include "worker/options/choices.h"

namespace gradwire {

namespace {

// A layout that begins with bytes is no model's, such as that of evaluations: its steps are none of
// the run.
class TracedExchange : public Exchange {
 public:
  TracedExchange(std::unique_ptr<Exchange> exchange, const OnSpan& on_span)
      : on_span_(on_span), exchange_(std::move(exchange)) {}

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override {
    if (IsBroadcast(buckets.front())) untraced_.insert(layout);
    exchange_->AddLayout(layout, std::move(buckets));
  }
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    if (untraced_.count(key.layout) > 0) {
      return exchange_->Expect(key, result, deadline, std::move(done));
    }
    auto traced = [this, key, begin = SteadyNow(), done = std::move(done)](absl::Status status) {
      on_span_({TraceSpan::Lane::kTransfer, "bucket", key.step, key.bucket, begin, SteadyNow()});
      done(std::move(status));
    };
    exchange_->Expect(key, result, deadline, std::move(traced));
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    exchange_->Contribute(key, rank, terms);
  }
  Memory TermsMemory(LayoutId layout, Bucket bucket, Rank rank) override {
    return exchange_->TermsMemory(layout, bucket, rank);
  }
  Memory ResultMemory(LayoutId layout, Bucket bucket) override {
    return exchange_->ResultMemory(layout, bucket);
  }
  void SetRate(double rate) override { exchange_->SetRate(rate); }
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  std::vector<KeptValues> Kept(LayoutId layout) override { return exchange_->Kept(layout); }
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override { return exchange_->totals(); }
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  const OnSpan on_span_;
  std::set<LayoutId> untraced_;
  const std::unique_ptr<Exchange> exchange_;  // ends first, because its threads call on_span_
};

class TracedBackend : public Backend {
 public:
  TracedBackend(std::unique_ptr<Backend> backend, OnSpan on_span)
      : on_span_(std::move(on_span)), backend_(std::move(backend)) {}

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override {
    absl::StatusOr<std::unique_ptr<Exchange>> exchange = backend_->Connect(view, ended, suspect);
    if (!exchange.ok()) return exchange;
    return std::make_unique<TracedExchange>(*std::move(exchange), on_span_);
  }
  std::vector<grpc::Service*> services() override { return backend_->services(); }

 private:
  const OnSpan on_span_;
  const std::unique_ptr<Backend> backend_;
};

}  // namespace

std::unique_ptr<Backend> TraceBackend(std::unique_ptr<Backend> backend, OnSpan on_span) {
  return std::make_unique<TracedBackend>(std::move(backend), std::move(on_span));
}

// Each row's factory is in its own file, with its own errors.
#define GRADWIRE_BACKEND(name, factory, ...) \
  absl::StatusOr<std::unique_ptr<Backend>> factory(const BackendOptions& options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
absl::StatusOr<std::unique_ptr<Backend>> MakeAutoBackend(const BackendOptions& options);

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options) {
#define GRADWIRE_BACKEND(row_name, factory, ...) \
  if (name == row_name) return factory(options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  if (name == kAutoBackend) return MakeAutoBackend(options);
  std::string names;
#define GRADWIRE_BACKEND(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return absl::NotFoundError(absl::StrCat("back end '", name, "' does not exist; expected ",
                                          kAutoBackend, " or one of:", names));
}

}  // namespace gradwire
