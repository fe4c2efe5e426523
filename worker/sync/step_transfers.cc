#include "worker/sync/step_transfers.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gradwire {
namespace {

// The back end keeps the deadline itself unless it is stuck in a write.
constexpr absl::Duration kMargin = absl::Seconds(2);

}  // namespace

void StepTransfers::Begin(Step step, const StepBuckets& buckets, absl::Duration timeout) {
  step_ = step;
  buckets_ = buckets;
  timeout_ = timeout;
  deadline_ = absl::InfiniteFuture();
  MutexLock lock(&mutex_);
  states_.assign(buckets.size(), State::kHeld);
  status_ = absl::OkStatus();
  times_ = {};
}

void StepTransfers::HandIn(size_t bucket) {
  const absl::Time now = absl::Now();
  if (deadline_ == absl::InfiniteFuture()) deadline_ = now + timeout_;
  {
    MutexLock lock(&mutex_);
    states_[bucket] = State::kUnderWay;
    if (under_way_++ == 0) busy_since_ = now;
  }
  const ReduceKey key{step_, Bucket(static_cast<int>(bucket))};
  auto done = [this, bucket](const absl::Status& status) { Done(bucket, status); };
  if (bucket == buckets_.gradients.size()) {
    backend_->BroadcastAsync(key, buckets_.buffers, deadline_, done);
  } else {
    const StepBuckets::Gradient& gradient = buckets_.gradients[bucket];
    backend_->AllReduceAsync(key, gradient.terms, gradient.mean, deadline_, done);
  }
}

void StepTransfers::HandInRest() {
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    bool held;
    {
      MutexLock lock(&mutex_);
      held = states_[bucket] == State::kHeld;
    }
    if (held) HandIn(bucket);
  }
}

void StepTransfers::Done(size_t bucket, const absl::Status& status) {
  MutexLock lock(&mutex_);
  states_[bucket] = State::kThere;
  if (status_.ok()) status_ = status;
  if (--under_way_ == 0) times_.communication += absl::Now() - busy_since_;
  changed_.NotifyAll();
}

// Whether Next() has something to give.
bool StepTransfers::CanTell() const {
  if (!status_.ok() || under_way_ == 0) return true;
  for (const State state : states_) {
    if (state == State::kThere) return true;
  }
  return false;
}

absl::StatusOr<size_t> StepTransfers::Take() {
  if (!status_.ok()) return status_;
  for (size_t bucket = states_.size(); bucket-- > 0;) {
    if (states_[bucket] != State::kThere) continue;
    states_[bucket] = State::kTaken;
    return bucket;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step_.value(), ": no bucket is under way"));
}

void StepTransfers::Wait() {
  const absl::Time start = absl::Now();
  while (!CanTell()) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline_ + kMargin) || CanTell()) continue;
    status_ = absl::DeadlineExceededError(
        absl::StrCat("step ", step_.value(), ": a neighbour takes no more data"));
  }
  times_.exposed_communication += absl::Now() - start;
}

absl::StatusOr<size_t> StepTransfers::Next() {
  MutexLock lock(&mutex_);
  if (!CanTell()) Wait();
  return Take();
}

void StepTransfers::Abandon(const absl::Status& reason) {
  {
    MutexLock lock(&mutex_);
    if (under_way_ == 0) return;
  }
  backend_->Cancel(reason);
  MutexLock lock(&mutex_);
  while (under_way_ > 0) changed_.Wait(&mutex_);
}

ExchangeTimes StepTransfers::times() const {
  MutexLock lock(&mutex_);
  return times_;
}

}  // namespace gradwire
