#ifndef GRADWIRE_WORKER_BACKENDS_TRANSFER_TABLE_H_
#define GRADWIRE_WORKER_BACKENDS_TRANSFER_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "gradwire/v1/chunk.pb.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Warns of gradients that are too large for the wire type: in the first such step, and then in the
// 2nd, 4th, 8th …, so that a run that diverges does not fill the log. Thread-safe.
class OverflowMonitor {
 public:
  // `sums`: sums of some ranks' gradients are rounded, too.
  explicit OverflowMonitor(v1::DType wire, bool sums = false) : wire_(wire), sums_(sums) {}

  // Notes that `rank` rounded a finite value to infinity for the wire in `step`. Steps come in
  // order; further calls for the same step change nothing.
  void Note(Step step, Rank rank);

  // Returns the number of such steps.
  uint64_t steps() const;

 private:
  const v1::DType wire_;
  const bool sums_;
  mutable Mutex mutex_;
  absl::optional<Step> last_ ABSL_GUARDED_BY(mutex_);
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns the warning: what happened, its effect, and what to do.
std::string OverflowMessage(v1::DType wire, Step step, Rank rank, uint64_t steps,
                            bool sums = false);

// Returns the error for peers that wait for a failed exchange. It does not say that a worker is
// silent, because the peers would take this worker for that one.
absl::Status EndForPeers(const absl::Status& failure);

// Why a transfer is late: the failure, DeadlineExceeded, in words for all ranks, and the workers
// whose parts are missing, if they are known.
struct Lateness {
  // NOLINTNEXTLINE(google-explicit-constructor): without workers it is only the failure.
  Lateness(absl::Status status, std::vector<Incarnation> missing = {})
      : failure(std::move(status)), workers(std::move(missing)) {}

  absl::Status failure;
  std::vector<Incarnation> workers;
};

// The transfers that an exchange has under way with their deadlines, the first failure, and the end
// of all transfers after it.
//
//   Add ─► under way ── Complete ──────────────────────────► done(OK)
//              │
//              └─ Fail, or a deadline ─► stop ─► drain ─► done(failure), also for what
//                                                         is added later
//
// A keeper thread watches deadlines and ends the transfers after a failure. Thread-safe.
class TransferTable {
 public:
  // Called by the table, never with its lock held.
  struct Hooks {
    // Explains a late transfer. Keeper thread.
    std::function<Lateness(const Transfer& late)> explain;
    // Tells the exchange's threads to stop after the first failure. On the thread that calls Fail;
    // must not block.
    std::function<void(const absl::Status& failure)> stop;
    // After `stop`: returns when no thread uses a transfer. Keeper thread, once.
    std::function<void()> drain;
  };

  // Layouts begin with step `first`.
  explicit TransferTable(Hooks hooks, Step first = Step(0));
  // Call Close first.
  ~TransferTable();

  // Starts the keeper. Before that, deadlines have no effect, and a failure ends no transfer.
  void Start();
  // Fails with Cancelled, ends all transfers and the keeper. `drain` may still be called.
  void Close();

  // `specs` are on the wire.
  void AddLayout(LayoutId layout, std::vector<BucketSpec> specs);
  // Returns the buckets of a layout, after waiting until it is added; null once the exchange has
  // failed. Valid as long as the table.
  const std::vector<BucketSpec>* WaitForLayout(LayoutId layout);
  // Returns the spec of a bucket of an added layout.
  const BucketSpec& SpecOf(const BucketKey& key) const;

  // Adds an expected bucket. Returns false if the exchange has failed: the keeper ends the
  // transfer.
  bool Add(std::shared_ptr<Transfer> transfer);
  // Returns null if it is not under way.
  std::shared_ptr<Transfer> Find(const BucketKey& key) const;
  // Returns all that are under way.
  std::vector<std::shared_ptr<Transfer>> All() const;
  // Returns OutOfRange if the step is neither the open one of its layout nor the next.
  absl::Status CheckStep(LayoutId layout, Step step) const;

  // Ends a transfer with success: waits briefly for lent memory and calls done, unless it has
  // ended.
  void Complete(const BucketKey& key);

  // The first failure counts. `suspect`: the worker at which it happened, if known.
  void Fail(const absl::Status& status, absl::optional<Incarnation> suspect);

  // Returns the first failure; OK if there is none.
  absl::Status failure() const;
  absl::optional<Suspect> suspect() const;

 private:
  void FailAt(const absl::Status& status, std::vector<Incarnation> suspects);
  void Keep();
  // Returns the transfer whose deadline passed; null once the exchange has failed.
  std::shared_ptr<Transfer> WaitForDeadline();
  void WaitForStop();
  void EndAll();

  const Hooks hooks_;
  const Step first_;
  mutable Mutex mutex_;
  CondVar changed_;       // a layout was added, or the exchange failed
  CondVar keeper_wakes_;  // the keeper has work
  absl::Time watched_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // next wake-up
  std::map<LayoutId, std::vector<BucketSpec>> layouts_ ABSL_GUARDED_BY(mutex_);
  std::map<LayoutId, Step> open_steps_ ABSL_GUARDED_BY(mutex_);
  std::map<BucketKey, std::shared_ptr<Transfer>> transfers_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Incarnation> suspects_ ABSL_GUARDED_BY(mutex_);  // workers at which failure_ happened
  absl::Time failed_at_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // `stop` has returned
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRANSFER_TABLE_H_
