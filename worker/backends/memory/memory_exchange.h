#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_EXCHANGE_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/view.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/memory/bell.h"
#include "worker/backends/memory/memory_budget.h"
#include "worker/backends/memory/memory_layout.h"
#include "worker/backends/memory/shared_memory.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// Averages through memory that all workers of the view map (see MemoryLayout). Nothing is sent. The
// caller's thread copies its terms; the exchange's one thread folds this worker's part of each
// bucket and copies the means. Neither copies what lies in TermsMemory and ResultMemory.
//
//   Contribute: write ─► ring the others' bells
//   thread:     sleep until the bell rings ─► for each bucket under way: fold, ring ─► read, done
//
// Expect, Contribute and AddLayout: one thread, or several that take turns. Cancel, suspect: any.
//
// All memory belongs to one view. So a worker that was stopped when the others went on without it
// can only write to memory that no worker reads any more.
class MemoryExchange : public Exchange {
 public:
  // `compressors` belong to this worker's ranks, if `wire` is coded; they must outlive this object.
  MemoryExchange(const View& view, const MemoryWire& wire, Compressors* compressors,
                 OnSpan on_span);
  ~MemoryExchange() override;

  // Call it once, first. ResourceExhausted: no memory can be shared.
  absl::Status Start();

  // Returns the status of MemoryBudget::Add for a layout that is added next. All workers get the
  // same.
  absl::Status Reserve(absl::Span<const BucketSpec> buckets) { return budget_.Add(buckets); }
  // Adds a layout that was reserved.
  void AddReserved(LayoutId layout, std::vector<BucketSpec> buckets);
  // Adds a layout whose transfers all fail with `reason` (not OK).
  void AddFailed(LayoutId layout, std::vector<BucketSpec> buckets, const absl::Status& reason);

  // Reserves and adds it; fails if its memory is beyond the limits of some worker.
  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  Memory TermsMemory(LayoutId layout, Bucket bucket, Rank rank) override;
  Memory ResultMemory(LayoutId layout, Bucket bucket) override;
  void Cancel(absl::Status reason) override { table_.Fail(reason, absl::nullopt); }
  std::vector<KeptValues> Kept(LayoutId layout) override;
  // Memory that the others still read stays mapped in their processes.
  absl::Status Finish(absl::Time) override;
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

 private:
  // Shared by each worker, beside its layouts: whether it still takes part in this view.
  enum class State : uint32_t { kRunning, kFinished, kFailed };
  using SharedState = std::atomic<State>;
  struct MemoryTransfer : Transfer {
    using Transfer::Transfer;
    MemoryLayout* layout = nullptr;
    int missing = 0;  // terms of this worker; thread that contributes
    bool folded = false;
    bool is_joined = false;  // the result is read where the means are
  };
  using Transfers = std::vector<std::shared_ptr<MemoryTransfer>>;

  absl::Status MakeOwn();
  absl::Status Open(size_t worker);
  // Returns whether all workers' bells are mapped; maps those that exist.
  bool OpenAll();
  // Ends the exchange, unless the memory may come.
  void FailToOpen(size_t worker, const absl::Status& status);
  Bell* BellOf(size_t worker) const;
  void RingAll();

  void Add(LayoutId layout, std::unique_ptr<MemoryLayout> memory, std::vector<BucketSpec> buckets);
  void Run();
  // Returns whether a bucket came further.
  bool Progress();
  bool Progress(const std::shared_ptr<MemoryTransfer>& transfer);
  // Returns whether the others' memory of a layout is mapped; maps what exists.
  bool IsOpen(MemoryLayout* layout);
  // Fails if a worker that this one waits for uses this view no more.
  void CheckEnded(const Transfers& waiting, const std::vector<State>& states);
  std::vector<State> States() const;
  void SetState(State state);
  void Fold(MemoryTransfer* transfer);
  void Count(Step step, const MemoryLayout::Rounding& rounding);
  std::vector<size_t> MissingOf(const MemoryTransfer& transfer, std::string* what);
  std::string NamesOf(const std::vector<size_t>& workers) const;
  Lateness Explain(const Transfer& late);
  void Stop();

  const View view_;
  const MemoryWire wire_;
  Compressors* const compressors_;
  const OnSpan on_span_;
  MemoryBudget budget_;  // of the thread that adds layouts
  OverflowMonitor overflow_;
  size_t self_ = 0;                   // index in the view
  std::vector<SharedMemory> bells_;   // by worker; mapped under the lock
  std::vector<SharedMemory> states_;  // by worker: SharedState

  mutable Mutex mutex_;
  std::map<LayoutId, std::unique_ptr<MemoryLayout>> layouts_ ABSL_GUARDED_BY(mutex_);
  Transfers under_way_ ABSL_GUARDED_BY(mutex_);
  CompressionTotals compressed_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_open_ = false;   // bells and states; of the thread
  bool is_opening_ = true;  // some memory does not exist yet; of the thread
  std::thread thread_;
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_EXCHANGE_H_
