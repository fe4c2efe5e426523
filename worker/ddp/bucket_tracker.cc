#include "worker/ddp/bucket_tracker.h"

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire {
namespace {

// The exchange keeps the deadline itself unless it is stuck in a write.
constexpr absl::Duration kMargin = absl::Seconds(2);

}  // namespace

void BucketTracker::Attach(Exchange* exchange, LayoutId layout, size_t buckets, size_t ranks) {
  exchange_ = exchange;
  layout_ = layout;
  handed_in_.assign(buckets, std::vector<bool>(ranks));
  MutexLock lock(&mutex_);
  states_.assign(buckets, State::kHeld);
}

void BucketTracker::Begin(Step step, absl::Duration timeout) {
  step_ = step;
  timeout_ = timeout;
  deadline_ = absl::InfiniteFuture();
  for (std::vector<bool>& ranks : handed_in_) ranks.assign(ranks.size(), false);
  MutexLock lock(&mutex_);
  states_.assign(states_.size(), State::kHeld);
  status_ = absl::OkStatus();
  times_ = {};
}

void BucketTracker::Contribute(size_t bucket, size_t index, Rank rank,
                               absl::Span<const uint8_t> terms, absl::Span<uint8_t> result) {
  const BucketKey key{layout_, step_, Bucket(static_cast<int>(bucket))};
  bool held;
  {
    MutexLock lock(&mutex_);
    held = states_[bucket] == State::kHeld;
  }
  if (held) Expect(key, result);
  handed_in_[bucket][index] = true;
  if (!terms.empty()) exchange_->Contribute(key, rank, terms);
}

void BucketTracker::Expect(const BucketKey& key, absl::Span<uint8_t> result) {
  const auto bucket = static_cast<size_t>(key.bucket.value());
  const absl::Time now = SteadyNow();
  if (deadline_ == absl::InfiniteFuture()) deadline_ = now + timeout_;
  {
    MutexLock lock(&mutex_);
    states_[bucket] = State::kUnderWay;
    if (under_way_++ == 0) busy_since_ = now;
  }
  exchange_->Expect(key, result, deadline_,
                    [this, bucket](const absl::Status& status) { Done(bucket, status); });
}

void BucketTracker::Done(size_t bucket, const absl::Status& status) {
  MutexLock lock(&mutex_);
  states_[bucket] = State::kThere;
  if (status_.ok()) status_ = status;
  if (--under_way_ == 0) times_[Phase::kCommunication] += SteadyNow() - busy_since_;
  changed_.NotifyAll();
}

// Whether Next() has a result or an error.
bool BucketTracker::CanTell() const {
  if (!status_.ok() || under_way_ == 0) return true;
  for (const State state : states_) {
    if (state == State::kThere) return true;
  }
  return false;
}

absl::StatusOr<size_t> BucketTracker::Take() {
  if (!status_.ok()) return status_;
  for (size_t bucket = states_.size(); bucket-- > 0;) {
    if (states_[bucket] != State::kThere) continue;
    states_[bucket] = State::kTaken;
    return bucket;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step_.value(), ": no bucket is under way"));
}

void BucketTracker::Wait() {
  const absl::Time start = SteadyNow();
  while (!CanTell()) {
    if (!changed_.WaitWithDeadline(&mutex_, deadline_ + kMargin) || CanTell()) continue;
    status_ = absl::DeadlineExceededError(
        absl::StrCat("step ", step_.value(), ": a neighbor takes no more data"));
  }
  times_[Phase::kExposedCommunication] += SteadyNow() - start;
}

absl::StatusOr<size_t> BucketTracker::Next() {
  MutexLock lock(&mutex_);
  if (!CanTell()) Wait();
  return Take();
}

void BucketTracker::Abandon(const absl::Status& reason) {
  {
    MutexLock lock(&mutex_);
    if (under_way_ == 0) return;
  }
  exchange_->Cancel(reason);
  MutexLock lock(&mutex_);
  while (under_way_ > 0) changed_.Wait(&mutex_);
}

PhaseTimes BucketTracker::times() const {
  MutexLock lock(&mutex_);
  PhaseTimes times = times_;
  if (under_way_ > 0) times[Phase::kCommunication] += SteadyNow() - busy_since_;
  return times;
}

}  // namespace gradwire
