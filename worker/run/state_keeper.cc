#include "worker/run/state_keeper.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr absl::Duration kLookSlice = absl::Milliseconds(100);

// The coordinator's checkpoint, for StateReader.
absl::Status FetchInto(StateFetcher* fetcher, const std::string& section, const std::string& key,
                       const torch::Tensor& tensor) {
  auto* const bytes = static_cast<uint8_t*>(tensor.data_ptr());
  return fetcher->FetchTensor(section, key, {bytes, tensor.nbytes()});
}

}  // namespace

StateKeeper::StateKeeper(StateOwner* owner, Run run, RunMember* member, HeldState* held)
    : owner_(owner),
      run_(std::move(run)),
      member_(member),
      held_(held),
      schedule_(run_.checkpoint_every, static_cast<uint64_t>(run_.total_steps)) {}

bool StateKeeper::IsLast(Step next) const {
  return next.value() == static_cast<uint64_t>(run_.total_steps);
}

void StateKeeper::BeforeStep(Step next, const View& view) {
  TellPutOff();
  if (!view.keeps_state || !schedule_.Take(next, view.generation, owner_->IsAtBorder())) return;
  if (reader_.has_value() && next == resumed_) return;  // it is that of the checkpoint
  const absl::optional<Step> kept = held_->step();
  if (kept.has_value() && !IsLast(next)) {
    return PutOff(next, view,
                  absl::StrCat("the copy before step ", kept->value(), " is still in use"));
  }
  try {
    Copy(next, view);
  } catch (...) {  // of a program's hook
    PutOff(next, view, "an exception was thrown while its state was copied");
    throw;
  }
}

void StateKeeper::PutOff(Step next, const View& view, const std::string& why) {
  put_off_ = Declined{next, view.generation, why};
  if (!MayBeLast()) TellPutOff();
}

// The number of a program's steps is not known, and the coordinator takes no copy of a step that
// was declined. With a copy before each step the decline cannot wait, because the other ranks need
// room for the next one.
bool StateKeeper::MayBeLast() const { return run_.total_steps == 0 && run_.checkpoint_every != 1; }

void StateKeeper::TellPutOff() {
  if (put_off_.has_value()) Decline(put_off_->step, put_off_->generation, put_off_->why);
  put_off_.reset();
}

// Else the others would keep their copies, and have no room for the next one.
void StateKeeper::Ask(Step step) {
  if (!schedule_.Add(step)) {
    Decline(step, schedule_.view(), "that step had begun when it was asked for");
  }
}

void StateKeeper::Decline(Step step, Generation generation, const std::string& why) {
  v1::Holds declined;
  declined.set_step(step.value());
  declined.set_generation(generation.value());
  declined.set_declined(why);
  member_->ReportHolds(declined);
}

// The state before the last step counts more than an earlier copy that is still in use.
void StateKeeper::Copy(Step next, const View& view) {
  held_->Drop(Step(0));
  v1::Holds holds;
  holds.set_step(next.value());
  holds.set_generation(view.generation.value());
  holds.set_total_steps(static_cast<uint64_t>(run_.total_steps));
  holds.set_steps_per_epoch(static_cast<uint64_t>(run_.steps_per_epoch));
  *holds.mutable_optimizer() = run_.optimizer(next);
  auto copy = std::make_shared<StateCopy>(owner_->Copy());
  copied_ = next;
  copied_in_ = view.generation;
  held_->Hold(view.run_id, std::move(copy), std::move(holds));
}

absl::Status StateKeeper::AwaitLast(Step last, const View& view, absl::Duration patience) {
  if (!view.keeps_state || resumed_ == last) return absl::OkStatus();
  put_off_.reset();  // it was the last one, which is copied here
  // The coordinator may be fetching the copy of an earlier view.
  const bool copied = copied_ == last && (copied_in_ == view.generation || held_->step() == last);
  if (!copied) Copy(last, view);
  const absl::Time deadline = SteadyNow() + patience;
  while (SteadyNow() < deadline) {
    const absl::optional<bool> written = held_->AwaitRelease(SteadyNow() + kLookSlice);
    if (written.has_value()) {
      if (*written || copied_in_ == view.generation) return absl::OkStatus();
      Copy(last, view);
    }
    if (absl::Status running = member_->EndedOrChanged(); !running.ok()) return running;
  }
  spdlog::warn("the coordinator did not write the last checkpoint within {}; it is given up",
               absl::FormatDuration(patience));
  return absl::OkStatus();
}

absl::Status StateKeeper::Resume(const View& view) {
  if (view.first_step == Step(0)) return absl::OkStatus();
  v1::StateId id;
  id.set_run_id(ToBytes(view.run_id));
  id.set_step(view.first_step.value());
  fetcher_ = std::make_unique<StateFetcher>(member_->CoordinatorChannel(), "the coordinator",
                                            std::move(id), kStateTimeout,
                                            [this] { return member_->EndedOrChanged(); });
  absl::StatusOr<v1::StateCatalog> catalog = fetcher_->Describe();
  if (!catalog.ok()) return catalog.status();
  resumed_ = view.first_step;
  reader_.emplace(*std::move(catalog),
                  [this](auto&&... tensor) { return FetchInto(fetcher_.get(), tensor...); });
  if (absl::Status restored = owner_->RestoreCommon(*reader_); !restored.ok()) return restored;
  spdlog::info("resumes before step {}", resumed_.value());
  return absl::OkStatus();
}

absl::Status StateKeeper::ResumeRanks(const View& view) {
  if (!reader_.has_value() || view.first_step != resumed_) return absl::OkStatus();
  return owner_->RestoreOwn(*reader_);
}

}  // namespace gradwire
