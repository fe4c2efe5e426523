#ifndef GRADWIRE_TESTS_SIMULATE_CHECKS_H_
#define GRADWIRE_TESTS_SIMULATE_CHECKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "common/wire/chunk.h"
#include "common/wire/view.h"
#include "tests/simulate/journal.h"

namespace gradwire::simulate {

// Digests of what all replicas have before a step is applied: of step 0 what the model begins with.
struct Digests {
  std::map<uint64_t, uint64_t> parameters;  // by step
  std::map<uint64_t, uint64_t> buffers;
};

bool IsMember(const View& view, Incarnation worker);

// What must hold in every run, looked at whenever something happens that could break it:
//
//   one checksum for each term (rank, step, bucket, offset), whoever computes it and how often
//   one digest of the parameters, and of the buffers, for each step: the faultless run's
//   sealed: each worker of the view has applied all means of the step in this view
//   a mean of step k + 1 is taken only when step k is sealed; no step is told of before
//   each rank has one carrier; generations only grow; one view for each generation
//   terms and means count only in the view they were made in, and never those of an evicted worker
//   what a view takes back is there: parameters and buffers are those before its first step
//   nobody is lost that no fault has touched, and nobody else gives up
//   a run that waits for who is silent loses nobody, and seals nothing meanwhile
//
// That waits end is looked at by who waits (see SimWorker). Workers are known by incarnation.
class Checks {
 public:
  // Of a run of so many steps. `expected` is the faultless run's; null: this is that run.
  Checks(Journal* journal, int64_t steps, const Digests* expected)
      : journal_(journal), last_(static_cast<uint64_t>(steps - 1)), expected_(expected) {}

  // A fault is about this worker.
  void OnTouched(Incarnation worker) { touched_.insert(worker); }

  // At the coordinator.
  void OnViewMade(const View& view);
  void OnSealed(Step step);
  // Somebody is awaited, until the next view.
  void OnPaused();
  // This worker has said nothing for longer than its lease, or has hung, and should have been lost
  // by now, or be awaited.
  void OnSilent(Incarnation worker);
  void OnRunOver(const absl::Status& status);

  // At a worker.
  void OnViewHeard(const View& view);
  void OnTerm(const ChunkHeader& header);
  void OnMeanTaken(Incarnation worker, Generation made_in, Generation view);
  // It is about to apply a mean of a step.
  void OnApply(Incarnation worker, Step step);
  // It has all means of the step.
  void OnApplied(Incarnation worker, Generation view, Step step, uint64_t parameters);
  void OnBuffers(Incarnation worker, Step step, uint64_t buffers);
  // It has what it had before `first`.
  void OnRewound(Incarnation worker, Step first, uint64_t parameters, uint64_t buffers);
  void OnStepTold(Incarnation worker, Step step);
  // All is done, after so many steps.
  void OnFinished(Incarnation worker, Step steps, uint64_t parameters, uint64_t buffers);
  void OnGaveUp(Incarnation worker, const absl::Status& status);

  // Where terms are summed in `view`: one counts that was made in a view by a sender.
  void OnTermHeld(Incarnation sender, Generation made_in, const View& view);

  // The whole run is over.
  void OnEnd();

  const Digests& digests() const { return digests_; }
  bool is_over() const { return over_.has_value(); }
  // Views that others were lost before.
  int losses() const { return losses_; }
  // Views of all that were there before.
  int returns() const { return returns_; }

 private:
  void Expect(std::map<uint64_t, uint64_t> Digests::*of, const char* what, Incarnation worker,
              Step step, uint64_t digest);
  void CheckRanks(const View& view);
  void CheckLost(const View& view);
  void CheckHasAll(Incarnation worker, Step step);

  Journal* const journal_;
  const Step last_;
  const Digests* const expected_;
  Digests digests_;
  std::set<Incarnation> touched_;
  std::optional<View> view_;  // the coordinator's
  Step first_open_;           // all before it are sealed
  std::optional<absl::Status> over_;
  std::map<Generation, std::string> views_;                     // as text, by generation
  std::map<Incarnation, Generation> heard_;                     // by worker
  std::map<Incarnation, std::pair<Generation, Step>> applied_;  // the last step that is complete
  std::map<std::tuple<Step, Rank, Bucket, uint64_t>, uint64_t> terms_;
  int finished_ = 0;
  int losses_ = 0;
  int returns_ = 0;
  bool is_paused_ = false;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_CHECKS_H_
