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

// Says when a gradient was too large for the wire type. Warns of the first step
// in which that happens and then at the 2nd, 4th, 8th … such step, so that a run
// that diverges does not fill the log. Thread-safe.
class OverflowMonitor {
 public:
  explicit OverflowMonitor(v1::DType wire) : wire_(wire) {}

  // A finite value became infinite when `rank` rounded it for the wire in `step`.
  // Steps come in order; further calls for the same step change nothing.
  void Note(Step step, Rank rank);

  // Steps noted so far.
  uint64_t steps() const;

 private:
  const v1::DType wire_;
  mutable Mutex mutex_;
  absl::optional<Step> last_ ABSL_GUARDED_BY(mutex_);
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The warning: what happened, what follows from it, and what to do.
std::string OverflowMessage(v1::DType wire, Step step, Rank rank, uint64_t steps);

// What an exchange that failed tells peers that wait for something from it. Not that somebody does
// not answer: they would take this worker for that one.
absl::Status EndForPeers(const absl::Status& failure);

// Why a transfer is late: the failure, DeadlineExceeded, in words for all ranks, and whose parts
// are missing, as far as that is known.
struct Lateness {
  // NOLINTNEXTLINE(google-explicit-constructor): without workers it is the failure alone.
  Lateness(absl::Status status, std::vector<Incarnation> missing = {})
      : failure(std::move(status)), workers(std::move(missing)) {}

  absl::Status failure;
  std::vector<Incarnation> workers;
};

// The transfers that an exchange has under way: who waits for which bucket until when, the
// first failure, and the end of everything after it.
//
//   Add ─► under way ── Complete ──────────────────────────► done(OK)
//              │
//              └─ Fail, or a deadline ─► stop ─► drain ─► done(failure), also for what
//                                                         is added later
//
// A keeper thread watches deadlines and, after a failure, ends the transfers. Thread-safe.
class TransferTable {
 public:
  // What the exchange does for the table; never called with a lock of the table's held.
  struct Hooks {
    // Keeper thread.
    std::function<Lateness(const Transfer& late)> explain;
    // The first failure is here: the exchange's threads are told to stop. On the thread that
    // calls Fail; must not block.
    std::function<void(const absl::Status& failure)> stop;
    // After `stop`: returns when no thread uses a transfer any more. Keeper thread, once.
    std::function<void()> drain;
  };

  // Layouts begin with step `first`.
  explicit TransferTable(Hooks hooks, Step first = Step(0));
  // Close first.
  ~TransferTable();

  // Starts the keeper. Before it deadlines pass unnoticed, and after a failure nothing ends.
  void Start();
  // Fails with Cancelled, ends all transfers and the keeper. What `drain` needs must live.
  void Close();

  // `specs` are on the wire.
  void AddLayout(LayoutId layout, std::vector<BucketSpec> specs);
  // The buckets of a layout, waiting for it until it is added; null once the exchange has
  // failed. Valid as long as the table.
  const std::vector<BucketSpec>* WaitForLayout(LayoutId layout);
  // The spec of a bucket whose layout was added.
  const BucketSpec& SpecOf(const BucketKey& key) const;

  // A bucket is expected. False if the exchange has failed: the keeper ends the transfer.
  bool Add(std::shared_ptr<Transfer> transfer);
  // Null if it is not under way.
  std::shared_ptr<Transfer> Find(const BucketKey& key) const;
  // All that are under way.
  std::vector<std::shared_ptr<Transfer>> All() const;
  // OutOfRange: the step is neither the open one of its layout nor the next.
  absl::Status CheckStep(LayoutId layout, Step step) const;

  // Ends a transfer well: waits an instant for lent memory and calls done, unless it was
  // ended before.
  void Complete(const BucketKey& key);

  // The first failure counts. `suspect`: the worker that it happened at, if known.
  void Fail(const absl::Status& status, absl::optional<Incarnation> suspect);

  // The first failure; OK as long as there is none.
  absl::Status failure() const;
  absl::optional<Suspect> suspect() const;

 private:
  void FailAt(const absl::Status& status, std::vector<Incarnation> suspects);
  void Keep();
  // The transfer whose deadline passed; null once the exchange has failed.
  std::shared_ptr<Transfer> WaitForDeadline();
  void WaitForStop();
  void EndAll();

  const Hooks hooks_;
  const Step first_;
  mutable Mutex mutex_;
  CondVar changed_;       // a layout was added, or the exchange failed
  CondVar keeper_wakes_;  // something for the keeper to do
  absl::Time watched_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // when it wakes by itself
  std::map<LayoutId, std::vector<BucketSpec>> layouts_ ABSL_GUARDED_BY(mutex_);
  std::map<LayoutId, Step> open_steps_ ABSL_GUARDED_BY(mutex_);
  std::map<BucketKey, std::shared_ptr<Transfer>> transfers_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<Incarnation> suspects_ ABSL_GUARDED_BY(mutex_);  // behind failure_
  absl::Time failed_at_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // `stop` has returned
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRANSFER_TABLE_H_
