#ifndef GRADWIRE_WORKER_RUN_STATE_KEEPER_H_
#define GRADWIRE_WORKER_RUN_STATE_KEEPER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/state_transfer/state_fetcher.h"
#include "common/wire/view.h"
#include "gradwire/v1/membership.pb.h"
#include "worker/member/member.h"
#include "worker/state/checkpoint_schedule.h"
#include "worker/state/held_state.h"
#include "worker/state/state_owner.h"
#include "worker/state/state_reader.h"

namespace gradwire {

// A worker's or a program's part in checkpoints and in a resumed run:
//
//   BeforeStep ── copy ──► HeldState ──► the coordinator fetches it, and says Saved
//   Resume ◄── the coordinator's checkpoint
//
// The thread that trains calls; only Ask may be called from any.
class StateKeeper {
 public:
  struct Run {
    uint64_t checkpoint_every = 0;  // steps; 0: none but the last and those of Ask
    int64_t total_steps = 0;        // 0: not known
    int64_t steps_per_epoch = 0;    // 0: not known
    // With which this step would be updated; without a name if each rank has its own.
    std::function<v1::OptimizerConfig(Step)> optimizer = nullptr;
  };

  // The pointers must outlive this object.
  StateKeeper(StateOwner* owner, Run run, RunMember* member, HeldState* held);

  // The coordinator asks for a copy of the state before `step`. Declines if it has been begun.
  void Ask(Step step);

  // Whether all updates of `step` must be done before the next step begins. After it said no, a
  // request for a copy of that state is declined.
  bool IsBorder(Step step) { return schedule_.IsDue(Step(step.value() + 1)); }

  // Between two steps: copies the state before `next`, if a copy is due, and reports it. If the
  // owner throws, there is no copy, and the exception is thrown again.
  void BeforeStep(Step next, const View& view);
  // After the step before `last`, which was the last one: waits until the coordinator has written
  // the state, at most `patience`; a coordinator that needs longer only loses that checkpoint.
  // Returns how the run ended, or Aborted if a newer view came.
  absl::Status AwaitLast(Step last, const View& view, absl::Duration patience);
  // A later view begins: copies of steps that will be computed again are void.
  void OnView(const View& view) { held_->Drop(view.first_step); }

  // Before Attach, with the first view: fetches the state before its first step from the
  // coordinator, unless that is step 0. Errors: those of StateReader.
  absl::Status Resume(const View& view);
  // After each Attach: restores what the carried ranks have for themselves, if no step was computed
  // since Resume.
  absl::Status ResumeRanks(const View& view);

 private:
  void Copy(Step next, const View& view);
  // Tells the coordinator that there will be no copy before `step`.
  void Decline(Step step, Generation generation, const std::string& why);
  bool IsLast(Step next) const;
  // Whether the step that was due may turn out to be the last one.
  bool MayBeLast() const;
  // There is no copy before `next`: declines it, now or when a later step begins.
  void PutOff(Step next, const View& view, const std::string& why);
  // Declines the step of `put_off_`, if there is one.
  void TellPutOff();

  StateOwner* const owner_;
  const Run run_;
  RunMember* const member_;
  HeldState* const held_;
  CheckpointSchedule schedule_;
  // Step and generation of the last copy.
  Step copied_;
  Generation copied_in_;
  // A copy that was not made. The coordinator receives the decline when a later step begins.
  struct Declined {
    Step step;
    Generation generation;
    std::string why;
  };
  absl::optional<Declined> put_off_;

  std::unique_ptr<StateFetcher> fetcher_;
  absl::optional<StateReader> reader_;  // set if this run was resumed
  Step resumed_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_STATE_KEEPER_H_
