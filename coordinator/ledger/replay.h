#ifndef GRADWIRE_COORDINATOR_LEDGER_REPLAY_H_
#define GRADWIRE_COORDINATOR_LEDGER_REPLAY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/ledger/log_reader.h"

namespace gradwire {

// The records of a segment: the work of one coordinator.
struct LedgerRun {
  int segment = 0;
  v1::StartRecord start;
  uint64_t epoch = 0;
  std::vector<v1::ViewRecord> views;
  uint64_t sealed = 0;      // number of Sealed records
  uint64_t unrecorded = 0;  // number of steps that were sealed without a record
  std::vector<v1::CheckpointRecord> checkpoints;
  std::optional<v1::ResumedRecord> resumed;
  std::optional<v1::EndRecord> end;  // none if the coordinator was killed or runs

  // Returns the workers lost, in order.
  std::vector<v1::LostWorker> Lost() const;
  // Whether its workers seal steps, so that they are recorded.
  bool Seals() const { return !views.empty() && views.front().view().seals(); }
};

// A sealed step: the last of its records counts.
struct LedgerStep {
  v1::SealedRecord record;
  int times = 1;  // number of its records: one for each run that computed it
};

// Follows a ledger's records from the first on. Pure: no file, no clock.
//
// Findings are sentences about records that contradict each other, although each is intact:
//
//   - a segment that does not begin with Start, Epoch, View; a record after End
//   - an epoch, or a generation within it, that does not grow; a view of another run
//   - a step that is sealed twice in a run, that is missing, or that a view skips
//   - a step without samples of all ranks, if the others have some
//   - a step that was computed again with other samples or another digest
class LedgerReplay {
 public:
  // Takes the next record. InvalidArgument if a newer program wrote it.
  absl::Status Add(const LedgerEntry& entry);

  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<LedgerRun>& runs() const { return runs_; }
  // Returns the effective record of each step of the last run and of those that it continues.
  const std::map<uint64_t, LedgerStep>& steps() const { return steps_; }
  // Returns the last epoch; 0 before the first.
  uint64_t epoch() const { return epoch_; }
  // Returns the first step that is not sealed.
  uint64_t open_step() const { return open_; }

 private:
  void Take(const v1::StartRecord& start);
  void Take(const v1::EpochRecord& epoch);
  void Take(const v1::ViewRecord& view);
  // Decides whether the run of this first view continues the run before it.
  void TakeFirst(const v1::View& view);
  void Take(const v1::SealedRecord& sealed);
  void Take(const v1::CheckpointRecord& checkpoint);
  void Take(const v1::ResumedRecord& resumed);
  void Take(const v1::EndRecord& end);
  // Whether the run before this one recorded its steps, or there is none.
  bool ContinuesRecords() const;
  void TakeUnrecorded(const v1::Unrecorded& unrecorded);
  // Returns what is wrong with the place of `record` in its segment; empty if nothing is.
  std::string CheckPlace(const LedgerEntry& entry) const;
  void CheckSamples(const v1::SealedRecord& sealed);
  void CheckAgain(const v1::SealedRecord& before, const v1::SealedRecord& sealed);
  void Find(absl::string_view sentence);

  std::vector<std::string> findings_;
  std::vector<LedgerRun> runs_;
  std::map<uint64_t, LedgerStep> steps_;
  uint64_t epoch_ = 0;
  uint64_t generation_ = 0;  // of the last view of this epoch
  uint64_t open_ = 0;
  std::string place_;      // of the record that is taken, for findings
  size_t in_segment_ = 0;  // number of records of the segment so far
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_LEDGER_REPLAY_H_
