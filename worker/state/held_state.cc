#include "worker/state/held_state.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {

HeldState::~HeldState() { Finish(); }

void HeldState::Finish() {
  if (digesting_.joinable()) digesting_.join();
}

void HeldState::Hold(const RunId& run_id, std::shared_ptr<HeldCopy> copy, v1::Holds holds) {
  Finish();
  {
    MutexLock lock(&mutex_);
    held_ = Held{run_id, Step(holds.step()), Generation(holds.generation()), copy};
    written_ = false;
  }
  *holds.mutable_sections() = copy->catalog().sections();
  digesting_ = std::thread([this, copy = std::move(copy), holds = std::move(holds)]() mutable {
    for (const TensorDigest& digest : copy->Digests()) {
      v1::TensorDigest& added = *holds.add_digests();
      added.set_tensor(static_cast<uint32_t>(digest.tensor));
      added.set_digest(digest.digest);
    }
    copy.reset();
    report_(holds);
  });
}

absl::optional<Step> HeldState::step() const {
  MutexLock lock(&mutex_);
  return held_.has_value() ? absl::make_optional(held_->step) : absl::nullopt;
}

void HeldState::Release(const v1::Saved& saved) {
  absl::optional<Held> released;  // freed without the lock
  MutexLock lock(&mutex_);
  if (!held_.has_value() || held_->step != Step(saved.step()) ||
      held_->generation != Generation(saved.generation())) {
    return;
  }
  released.swap(held_);
  written_ = saved.written();
  changed_.NotifyAll();
}

void HeldState::Drop(Step first) {
  MutexLock lock(&mutex_);
  if (!held_.has_value() || held_->step <= first) return;
  held_.reset();
  written_ = false;
  changed_.NotifyAll();
}

absl::StatusOr<std::shared_ptr<SharedState>> HeldState::Find(const RunId& run_id, Step step,
                                                             Generation generation) const {
  MutexLock lock(&mutex_);
  if (held_.has_value() && held_->run_id != run_id) {
    return absl::PermissionDeniedError(
        absl::StrCat("state: got run ", ToHex(run_id), ", expected ", ToHex(held_->run_id)));
  }
  if (held_.has_value() && held_->step == step && held_->generation == generation) {
    return held_->copy;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "state: got step ", step.value(), " of generation ", generation.value(), ", expected ",
      held_.has_value()
          ? absl::StrCat("step ", held_->step.value(), " of generation ", held_->generation.value())
          : "none, because no copy is held"));
}

absl::optional<bool> HeldState::AwaitRelease(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (held_.has_value() && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  return held_.has_value() ? absl::nullopt : absl::make_optional(written_);
}

}  // namespace gradwire
