#ifndef GRADWIRE_WORKER_STATE_HELD_STATE_H_
#define GRADWIRE_WORKER_STATE_HELD_STATE_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/state_transfer/state_service.h"
#include "common/wire/layout.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// A copy of a worker's state.
class HeldCopy : public SharedState {
 public:
  // Returns the digests of the tensors that all workers have in common, in their order.
  virtual std::vector<TensorDigest> Digests() const = 0;
};

// The copy that a worker keeps for the coordinator, at most one at a time:
//
//   Hold ─► (its thread) digests ─► report(Holds)        State.Fetch ─► Find
//                                      … until Release or Drop
//
// Thread-safe, except for Hold and Drop, which one thread calls.
class HeldState {
 public:
  using Report = std::function<void(const v1::Holds&)>;

  // `report` is called on a thread of this object, with no lock held.
  explicit HeldState(Report report) : report_(std::move(report)) {}
  ~HeldState();
  HeldState(const HeldState&) = delete;
  HeldState& operator=(const HeldState&) = delete;

  // Keeps a copy of the state before holds.step(), made in the view of holds.generation(), and
  // reports it with its sections and digests. No copy may be held.
  void Hold(const RunId& run_id, std::shared_ptr<HeldCopy> copy, v1::Holds holds);

  // Waits for a report that is under way. Before the reporting side ends.
  void Finish();

  // Returns the step of the copy that is held, if one is.
  absl::optional<Step> step() const;
  // The coordinator does not need this copy any more.
  void Release(const v1::Saved& saved);
  // Drops the copy, if it is of a step after `first`: that step will be computed again.
  void Drop(Step first);

  // See StateService::Find.
  absl::StatusOr<std::shared_ptr<SharedState>> Find(const RunId& run_id, Step step,
                                                    Generation generation) const;

  // Waits until the copy is released, or until `deadline`. Returns whether the coordinator has
  // written it; nothing if it still holds the copy.
  absl::optional<bool> AwaitRelease(absl::Time deadline);

 private:
  struct Held {
    RunId run_id;
    Step step;
    Generation generation;
    std::shared_ptr<HeldCopy> copy;
  };

  const Report report_;
  mutable Mutex mutex_;
  CondVar changed_;
  absl::optional<Held> held_ ABSL_GUARDED_BY(mutex_);
  bool written_ ABSL_GUARDED_BY(mutex_) = false;  // the last copy that was released
  std::thread digesting_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_STATE_HELD_STATE_H_
