#ifndef GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_
#define GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/wire/view.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// An exchange for several threads, each with layouts of its own: one at a time is let through where
// an exchange wants one thread. A group whose models travel as factors has them: the threads of
// LowRankExchange, and that of the collectives.
class SharedExchange : public Exchange {
 public:
  explicit SharedExchange(std::unique_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override {
    MutexLock lock(&mutex_);
    exchange_->AddLayout(layout, std::move(buckets));
  }
  // `done` may run within the call: it must not call this exchange.
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override {
    MutexLock lock(&mutex_);
    exchange_->Expect(key, result, deadline, std::move(done));
  }
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override {
    MutexLock lock(&mutex_);
    exchange_->Contribute(key, rank, terms);
  }
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override { return exchange_->totals(); }
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  Mutex mutex_;
  const std::unique_ptr<Exchange> exchange_;
};

// Whether `status`, with which training ended in a run that this worker was not told to leave, may
// come of the loss of another one: a transfer with it broke, was ended by it, or by one that heard
// of the loss first, or did not end in time.
bool MayBeALoss(const absl::Status& status);

// What the coordinator said of a run that recovers, for a trainer that asks: which steps are
// sealed, and whether there is a further view (see membership.proto). It says both in one stream,
// so a step that was sealed before the further view is known to be.
//
// Thread-safe.
class ViewChanges {
 public:
  // What the coordinator says, in its order.
  void OnSealed(Step step);
  void OnNewView(View view);
  // There will be a further view, or an end, after a while.
  void OnPaused();
  // Nothing more comes: all waits end with `reason`, which is not OK. The first counts.
  void End(const absl::Status& reason);
  // OK, or that reason.
  absl::Status ended() const;
  // Waits for it until `deadline`.
  absl::Status AwaitEnd(absl::Time deadline);

  // Waits until `step` is sealed. Aborted if a further view or a pause came before, or the reason
  // of End; none if it is not known by `deadline`.
  absl::optional<absl::Status> AwaitSealed(Step step, absl::Time deadline);
  // The same at once.
  absl::optional<absl::Status> WhetherSealed(Step step) const;
  // OK, or Aborted if the run is paused, or a further view has come that was not taken.
  absl::Status Unchanged() const;
  // Waits for a further view, and takes the latest; none if none has come by `deadline`, unless the
  // run is paused then, or after End.
  absl::optional<View> AwaitView(absl::Time deadline);

 private:
  absl::optional<absl::Status> Verdict(Step step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  Step first_open_ ABSL_GUARDED_BY(mutex_);  // all before it are sealed
  absl::optional<View> view_ ABSL_GUARDED_BY(mutex_);
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_MEMBER_VIEW_CHANGES_H_
