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

// Where gradients travel through the exchange below.
struct LowRankLayouts {
  LayoutId factors;          // has the plan's specs
  LayoutId whole;            // has the buckets that are contributed; used if whole_steps > 0
  uint64_t whole_steps = 0;  // so many first steps go there
};

// Gradient buckets as products of thin matrices (see LowRankBucket), by exchanges through another
// one, whichever it is. Of each bucket:
//
//   Expect, Contribute of each rank ─► left: mean P ─► right: mean Q ─► result, done
//
// What is wanted of a bucket, and when its exchanges end, is a task of this object's thread, in the
// order in which it comes; so all calls below are made on that thread, but those of whole steps,
// which are passed on. Buckets behind the plan's are passed on, too.
//
// Keys may have any layout, as there is one. What is left out outlives steps, not this object.
class LowRankExchange : public Exchange {
 public:
  // `exchange`, which knows the layouts, outlives this object. `ranks`: those that this worker
  // carries.
  LowRankExchange(Exchange* exchange, LowRankPlan plan, const LowRankLayouts& layouts,
                  std::vector<Rank> ranks);
  // No transfer is under way.
  ~LowRankExchange() override;

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void Cancel(absl::Status reason) override { exchange_->Cancel(std::move(reason)); }
  absl::Status Finish(absl::Time deadline) override { return exchange_->Finish(deadline); }
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override { return exchange_->suspect(); }

 private:
  // A gradient bucket in one step.
  struct Transfer {
    Step step;
    absl::Span<uint8_t> result;
    Done done;            // null: none is under way
    int under_way = 0;    // of its two exchanges
    absl::Status status;  // the first error
  };

  void Count(const CompressionTotals& more);
  bool IsWhole(const BucketKey& key) const { return key.step.value() < layouts_.whole_steps; }
  BucketKey Below(const BucketKey& key) const;
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
  std::thread thread_;  // last, as it uses all others
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_LOW_RANK_EXCHANGE_H_
