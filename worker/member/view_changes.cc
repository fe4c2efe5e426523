#include "worker/member/view_changes.h"

#include <utility>

namespace gradwire {
namespace {

absl::Status Changed() {
  return absl::AbortedError("a worker was lost, and the others go on in another view");
}

absl::Status Paused() { return absl::AbortedError("the run is paused"); }

}  // namespace

bool MayBeALoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status);
}

void ViewChanges::OnSealed(Step step) {
  MutexLock lock(&mutex_);
  first_open_ = Step(step.value() + 1);
  changed_.NotifyAll();
}

void ViewChanges::OnNewView(View view) {
  MutexLock lock(&mutex_);
  view_ = std::move(view);
  paused_ = false;
  changed_.NotifyAll();
}

// A view that was not taken yet is obsolete: its run has paused.
void ViewChanges::OnPaused() {
  MutexLock lock(&mutex_);
  view_.reset();
  paused_ = true;
  changed_.NotifyAll();
}

void ViewChanges::End(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  ended_.Update(reason);
  changed_.NotifyAll();
}

absl::Status ViewChanges::ended() const {
  MutexLock lock(&mutex_);
  return ended_;
}

absl::Status ViewChanges::AwaitEnd(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (ended_.ok() && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  return ended_;
}

absl::optional<absl::Status> ViewChanges::Verdict(Step step) const {
  if (step < first_open_) return absl::OkStatus();
  if (!ended_.ok()) return ended_;
  if (paused_) return Paused();
  if (view_.has_value()) return Changed();
  return absl::nullopt;
}

absl::optional<absl::Status> ViewChanges::AwaitSealed(Step step, absl::Time deadline) {
  MutexLock lock(&mutex_);
  absl::optional<absl::Status> verdict;
  while (!(verdict = Verdict(step)).has_value()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  return verdict.has_value() ? verdict : Verdict(step);
}

absl::optional<absl::Status> ViewChanges::WhetherSealed(Step step) const {
  MutexLock lock(&mutex_);
  return Verdict(step);
}

absl::Status ViewChanges::Unchanged() const {
  MutexLock lock(&mutex_);
  if (paused_) return Paused();
  return view_.has_value() ? Changed() : absl::OkStatus();
}

absl::optional<View> ViewChanges::AwaitView(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!view_.has_value() && ended_.ok()) {
    const absl::Time until = paused_ ? absl::InfiniteFuture() : deadline;
    if (changed_.WaitWithDeadline(&mutex_, until) && !paused_) break;
  }
  if (!ended_.ok()) return absl::nullopt;
  return std::exchange(view_, absl::nullopt);
}

}  // namespace gradwire
