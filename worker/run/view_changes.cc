#include "worker/run/view_changes.h"

#include <utility>

namespace gradwire {
namespace {

absl::Status Changed() {
  return absl::AbortedError("a worker was lost, and the others go on in another view");
}

}  // namespace

void ViewChanges::OnSealed(Step step) {
  MutexLock lock(&mutex_);
  first_open_ = Step(step.value() + 1);
  changed_.NotifyAll();
}

void ViewChanges::OnNewView(View view) {
  MutexLock lock(&mutex_);
  view_ = std::move(view);
  changed_.NotifyAll();
}

void ViewChanges::End(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  ended_.Update(reason);
  changed_.NotifyAll();
}

absl::Status ViewChanges::AwaitSealed(Step step) {
  MutexLock lock(&mutex_);
  while (first_open_ <= step && !view_.has_value() && ended_.ok()) changed_.Wait(&mutex_);
  if (step < first_open_) return absl::OkStatus();
  return ended_.ok() ? Changed() : ended_;
}

absl::Status ViewChanges::Unchanged() const {
  MutexLock lock(&mutex_);
  return view_.has_value() ? Changed() : absl::OkStatus();
}

absl::optional<View> ViewChanges::AwaitView(absl::Time deadline) {
  MutexLock lock(&mutex_);
  while (!view_.has_value() && ended_.ok()) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  if (!ended_.ok()) return absl::nullopt;
  return std::exchange(view_, absl::nullopt);
}

}  // namespace gradwire
