#ifndef GRADWIRE_COORDINATOR_LEDGER_LEDGER_H_
#define GRADWIRE_COORDINATOR_LEDGER_LEDGER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/disk.h"
#include "common/base/mutex.h"
#include "coordinator/ledger/log_reader.h"
#include "coordinator/ledger/replay.h"

namespace gradwire {

struct LedgerHooks {
  // The ledger's thread has synced a group of records: the wall time of that, and the thread's CPU
  // time since the last call. Called on that thread.
  std::function<void(absl::Duration took, absl::Duration cpu)> on_sync = nullptr;
  // Called once, on the ledger's thread, when the ledger stops recording steps; `why` is a
  // sentence.
  std::function<void(const absl::Status& why)> on_not_durable = nullptr;
};

// The ledger of a run directory, for its one coordinator: a segment of its own after those of
// earlier coordinators (docs/ledger.md).
//
//   Record    Sealed of each step ──┐
//                                   ├──► queue ──► own thread: write, sync, in groups
//   RecordDurably   all others   ───┘                    │
//        └───────────── waits ◄──────────────────────────┘
//
// Records are written in the order of the calls. The thread syncs at once if a caller waits, and
// otherwise kGroup after the first record of a group, so steps cost no sync each.
//
//   RECORDING ── disk full ──► FULL: drops Sealed records and counts them in the next durable
//       │                      record, for which it frees a reserve of kReserveBytes
//       └── write or sync failed ──► FAILED: writes nothing more. A sync is not tried again,
//       because
//                                    the system may have dropped the data that it reported
//
// Thread-safe.
class Ledger {
 public:
  static constexpr absl::Duration kGroup = absl::Milliseconds(100);
  // Longest wait for a durable record.
  static constexpr absl::Duration kDurableTimeout = absl::Seconds(30);
  static constexpr int64_t kReserveBytes = 1 << 20;

  // Reads the ledger of an existing `run_dir`, cuts a torn tail off, with a warning, and makes the
  // reserve. The caller has the run directory for itself, and keeps `disk` until the end. Writes no
  // record. Errors:
  //   InvalidArgument    damage, with its segment and byte; or a newer program wrote the ledger
  //   NotFound           a file cannot be read
  //   ResourceExhausted  no space for the reserve
  //   Internal           another failure of the disk
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& run_dir, Disk* disk);
  // Writes what is queued, within kDurableTimeout if the disk answers.
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Calls these hooks from now on. They must work until the ledger is destroyed.
  void Listen(LedgerHooks hooks);

  // Returns what earlier coordinators recorded. Never changes.
  const LedgerReplay& before() const { return before_; }

  // Queues a step's record. Never blocks. Drops it unless the ledger is RECORDING.
  void Record(v1::SealedRecord record);
  // Writes the records, and all that were queued earlier, and returns when they are on the disk.
  // The first call of all makes the segment, so it must begin with Start, Epoch and View.
  //   ResourceExhausted  no space, even with the reserve
  //   DeadlineExceeded   the disk did not answer within kDurableTimeout
  //   Internal           a write or a sync failed, now or earlier
  absl::Status RecordDurably(std::vector<gradwire::Record> records);

  // Returns the position after the last record that is on the disk.
  LedgerPosition position() const;
  // Returns OK while steps are recorded, else why they are not.
  absl::Status durability() const;

 private:
  // A call of RecordDurably.
  struct Waiting {
    bool done = false;
    absl::Status result;
  };
  struct Queued {
    std::vector<gradwire::Record> records;
    std::shared_ptr<Waiting> waiting;  // null for Record
  };

  Ledger(const std::string& run_dir, Disk* disk);
  LedgerHooks Hooks() const;
  absl::Status ReadBefore(const std::string& run_dir);
  absl::Status CloseBefore(const LedgerEnd& end);
  absl::Status MakeReserve();

  void Run();
  // Waits for the next group; empty at the end.
  std::deque<Queued> NextGroup();
  void WriteGroup(std::deque<Queued> group);
  absl::Status WriteOut(std::deque<Queued>* group);
  absl::Status Append(const std::string& bytes, const LedgerPosition& end);
  absl::Status MakeSegment();
  // Removes Sealed records from the group and counts them.
  void DropSteps(std::deque<Queued>* group);
  void CountDropped(const v1::SealedRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // States the dropped steps in the group's first record that can say so; returns their number.
  uint64_t StateDropped(std::deque<Queued>* group) const;
  void OnFull(const absl::Status& why);
  void OnFailed(const absl::Status& why);
  void TellSync(absl::Duration took);
  void TellNotDurable(const absl::Status& why) const;
  // Returns whether this is the first cause.
  bool StopRecording(const absl::Status& why);
  void Answer(const std::deque<Queued>& group, const absl::Status& result);

  const std::string folder_;
  Disk* const disk_;
  LedgerReplay before_;

  // Only for the thread, once it runs.
  int segment_ = 1;
  std::unique_ptr<DiskFile> file_;  // null before the first record
  int64_t offset_ = 0;
  bool has_reserve_ = false;
  absl::Duration cpu_;  // of the thread at the last sync

  mutable Mutex mutex_;
  CondVar changed_;
  LedgerHooks hooks_ ABSL_GUARDED_BY(mutex_);
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  absl::Time group_since_ ABSL_GUARDED_BY(mutex_);  // its first record
  bool is_urgent_ ABSL_GUARDED_BY(mutex_) = false;  // a caller waits
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  v1::Unrecorded unrecorded_ ABSL_GUARDED_BY(mutex_);  // steps since a record stated the last ones
  LedgerPosition position_ ABSL_GUARDED_BY(mutex_);
  absl::Status not_recording_ ABSL_GUARDED_BY(mutex_);  // why steps are dropped
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);         // why nothing is written

  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_LEDGER_LEDGER_H_
