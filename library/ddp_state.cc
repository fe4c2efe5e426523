// The part of DistributedDataParallel that has to do with checkpoints.
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "library/ddp_impl.h"

namespace gradwire {

void DistributedDataParallel::Impl::CheckNotBegun(const char* call) const {
  const bool begun = steps() > 0;
  if (!begun && !next_.has_value()) return;
  run_->Check(absl::FailedPreconditionError(
      absl::StrCat(call, ": got it after ", begun ? "the first backward pass" : "resume()",
                   ", expected it before both")));
}

void DistributedDataParallel::Impl::Attach(torch::optim::Optimizer* optimizer) {
  CheckNotBegun("attach");
  run_->Check(state().Attach(optimizer));
}

void DistributedDataParallel::Impl::Attach(const std::string& name, StateHooks hooks) {
  CheckNotBegun("attach");
  run_->Check(state().Attach(name, std::move(hooks)));
}

ProgramState& DistributedDataParallel::Impl::state() {
  if (state_ == nullptr) {
    ProgramState::Parts parts;
    parts.module = module_;
    parts.reducer = reducer_.get();
    parts.kept = [this] {
      return low_rank_ != nullptr ? low_rank_->Kept(LayoutId(0)) : member_.exchange().Kept(layout_);
    };
    parts.rank = member_.rank();
    parts.broadcast = options_.broadcast_buffers;
    state_ = std::make_unique<ProgramState>(std::move(parts));
  }
  return *state_;
}

int64_t DistributedDataParallel::Impl::Resume() {
  CheckNotBegun("resume");
  if (!state().has_optimizer()) {
    run_->Check(absl::FailedPreconditionError(
        "resume: got no optimizer, expected attach(optimizer) before it"));
  }
  run_->Check(run_->SetKeepLast([this] { return KeepLast(); }));
  absl::StatusOr<Step> first = member_.view().first_step;
  if (member_.view().keeps_state) {
    if (absl::Status types = state().CheckTypes(); !types.ok()) Fail(types);
    first = member_.Keep(state_.get(), [this](Step) { return state_->optimizer_config(); });
  }
  if (!first.ok()) Fail(first.status());
  next_ = *first;
  return static_cast<int64_t>(next_->value());
}

absl::Status DistributedDataParallel::Impl::CheckResumed() const {
  const Step first = member_.view().first_step;
  if (next_.has_value() || first == Step(0)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("got a backward pass in a run that continues before step ", first.value(),
                   ", expected resume() first"));
}

void DistributedDataParallel::Impl::EndStep() {
  if (!next_.has_value()) {
    run_->Check(absl::FailedPreconditionError("end_step: got it before resume()"));
  }
  if (absl::Status state = member_.state(); !state.ok()) Fail(state);
  if (member_.keeps_state()) run_->Check(state_->CheckGroups());
  ++*next_;
  if (!member_.keeps_state()) return;
  member_.BeforeStep(*next_);
  TellOfCommit();
}

void DistributedDataParallel::Impl::TellOfCommit() {
  for (const Step written : member_.TakeWritten()) {
    state_->OnCommit(static_cast<int64_t>(written.value()));
  }
}

// Ranks that have done other numbers of steps have no common state, and a rank whose hook threw in
// Resume has none at all.
absl::Status DistributedDataParallel::Impl::KeepLast() {
  if (!member_.keeps_state() || !next_.has_value()) return absl::OkStatus();
  member_.BeginClosing();
  const auto own = static_cast<int64_t>(next_->value());
  const auto all = run_->collectives().AllGather(torch::tensor(own, torch::kLong));
  if (!all.ok()) return all.status();
  for (const torch::Tensor& steps : *all) {
    if (steps.item<int64_t>() != own) return absl::OkStatus();
  }
  const absl::Status kept = member_.KeepLast(*next_);
  TellOfCommit();
  return kept;
}

// A copy that was due after the last step is kept all the same.
void DistributedDataParallel::Impl::WarnIfNotKept() const {
  const View& view = member_.view();
  if (!member_.keeps_state() || !next_.has_value() || *next_ == view.first_step) return;
  if (view.checkpoint_every > 0 && next_->value() % view.checkpoint_every == 0) return;
  if (run_->Unwinding() || !member_.state().ok()) return;
  spdlog::warn(
      "{}: its DistributedDataParallel ends before the group is closed, so there will be no "
      "checkpoint before step {}; call close() first",
      name_, next_->value());
}

}  // namespace gradwire
