#ifndef GRADWIRE_WORKER_BACKENDS_LOW_RANK_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_LOW_RANK_EXCHANGE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/compress/low_rank/low_rank_bucket.h"
#include "common/compress/low_rank/low_rank_plan.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// The layouts through which the gradients are sent.
struct LowRankLayouts {
  LayoutId factors;          // has the plan's specs
  LayoutId whole;            // of the contributed buckets; used if whole_steps > 0
  uint64_t whole_steps = 0;  // number of first steps that use it
  Step first_step = {};      // of the view; both layouts begin with it
};

// Sends gradient buckets as products of thin matrices (see LowRankBucket), through another exchange
// of any kind. Each bucket goes through
//
//   Expect, Contribute of each rank ─► left: mean P ─► right: mean Q ─► result, done
//
// Each call and each end of an exchange is a task of this object's thread, in order of arrival. So
// this thread makes all calls of the other exchange, except those of whole steps and of buckets
// after the plan's, which are passed on directly.
//
// Keys may have any layout, because there is only one. The residuals last as long as this object.
class LowRankExchange : public Exchange {
 public:
  // `exchange`, which knows the layouts, must outlive this object. `ranks`: carried by this worker.
  LowRankExchange(Exchange* exchange, LowRankPlan plan, const LowRankLayouts& layouts,
                  std::vector<Rank> ranks);
  // No transfer may be under way.
  ~LowRankExchange() override;

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  std::vector<KeptValues> Kept(LayoutId layout) override;
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  // A gradient bucket in one step.
  struct Transfer {
    Step step;
    absl::Span<uint8_t> result;
    Done done;            // null: not under way
    int under_way = 0;    // how many of its two exchanges
    absl::Status status;  // the first error
  };

  void Count(const CompressionTotals& more);
  bool IsWhole(const BucketKey& key) const { return key.step.value() < layouts_.whole_steps; }
  BucketKey Below(const BucketKey& key) const;
  // Waits until the thread has done all tasks so far, which wait for nothing.
  void Drain();
  void AddKept(size_t bucket, std::vector<KeptValues>* kept);
  bool IsGradient(const BucketKey& key) const;
  void Post(std::function<void()> task);
  std::function<void()> NextTask();
  void Run();

  // On the thread:
  void Begin(const BucketKey& key, absl::Time deadline, Transfer transfer);
  void Project(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms);
  void OnLeft(const BucketKey& key, const absl::Status& status);
  void OnEnd(const BucketKey& key, const absl::Status& status);
  void End(const BucketKey& key);
  void CountLeftOut(const BucketKey& key);
  Transfer& TransferOf(const BucketKey& key) { return transfers_[key.bucket.value()]; }
  LowRankBucket& BucketOf(const BucketKey& key) { return buckets_[key.bucket.value()]; }
  const LowRankLayout& LayoutOf(const BucketKey& key) const {
    return plan_.buckets()[key.bucket.value()];
  }

  Exchange* const exchange_;
  const LowRankPlan plan_;
  const LowRankLayouts layouts_;
  const std::vector<Rank> ranks_;
  std::vector<LowRankBucket> buckets_;
  std::vector<Transfer> transfers_;  // by gradient bucket

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  CompressionTotals compressed_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_LOW_RANK_EXCHANGE_H_
