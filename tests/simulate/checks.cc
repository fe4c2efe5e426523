#include "tests/simulate/checks.h"

#include <algorithm>
#include <vector>

namespace gradwire::simulate {
namespace {

std::string NameOf(Incarnation worker) { return absl::StrCat("worker ", worker.value()); }

// All that is the same for all members.
std::string TextOf(const View& view) {
  std::string text = absl::StrCat("generation ", view.generation.value(), " from step ",
                                  view.first_step.value(), ":");
  for (const Member& member : view.members) {
    absl::StrAppend(&text, " ", member.incarnation.value(), " carries ",
                    gradwire::NameOf(member.ranks), ";");
  }
  return text;
}

}  // namespace

bool IsMember(const View& view, Incarnation worker) {
  return std::any_of(view.members.begin(), view.members.end(),
                     [&](const Member& member) { return member.incarnation == worker; });
}

void Checks::CheckRanks(const View& view) {
  std::vector<int> carriers(view.world_size);
  for (const Member& member : view.members) {
    for (const Rank rank : member.ranks) ++carriers[rank.value()];
  }
  for (size_t rank = 0; rank < carriers.size(); ++rank) {
    if (carriers[rank] == 1) continue;
    journal_->Fail("rank ", rank, " has ", carriers[rank], " carriers in ", TextOf(view));
  }
}

void Checks::CheckLost(const View& view) {
  for (const Member& member : view_->members) {
    if (IsMember(view, member.incarnation) || touched_.count(member.incarnation) > 0) continue;
    journal_->Fail(NameOf(member.incarnation), " was lost, and no fault had touched it");
  }
}

void Checks::OnViewMade(const View& view) {
  journal_->Say("view: ", TextOf(view));
  CheckRanks(view);
  if (view_.has_value()) {
    ++(view.members.size() < view_->members.size() ? losses_ : returns_);
    CheckLost(view);
    if (view.generation <= view_->generation) {
      journal_->Fail("generation ", view.generation.value(), " comes after ",
                     view_->generation.value());
    }
  }
  if (view.first_step != first_open_) {
    journal_->Fail("a view begins with step ", view.first_step.value(),
                   ", the first that is not sealed is ", first_open_.value());
  }
  view_ = view;
  is_paused_ = false;
}

// Behind the last step comes one that has no means: that all have all of those before.
void Checks::CheckHasAll(Incarnation worker, Step step) {
  const Step wanted = std::min(step, last_);
  const auto found = applied_.find(worker);
  if (found != applied_.end()) {
    const auto& [generation, applied] = found->second;
    const bool is_of_view = generation == view_->generation || wanted < view_->first_step;
    if (applied >= wanted && is_of_view) return;
  }
  journal_->Fail("step ", step.value(), " is sealed, and ", NameOf(worker),
                 " does not have all its means");
}

void Checks::OnPaused() {
  journal_->Say("the run is paused");
  is_paused_ = true;
}

void Checks::OnSealed(Step step) {
  if (is_paused_) journal_->Fail("step ", step.value(), " is sealed in a pause");
  if (step != first_open_) {
    journal_->Fail("step ", step.value(), " is sealed, the first that was not is ",
                   first_open_.value());
  }
  for (const Member& member : view_->members) CheckHasAll(member.incarnation, step);
  first_open_ = Step(step.value() + 1);
}

void Checks::OnSilent(Incarnation worker) {
  const bool is_through = first_open_.value() > last_.value() + 1;  // nobody needs it any more
  if (over_.has_value() || is_through || is_paused_ || !IsMember(*view_, worker)) return;
  journal_->Fail(NameOf(worker), " is silent for longer than its lease, or hangs, and is not lost");
}

void Checks::OnRunOver(const absl::Status& status) {
  journal_->Say("the run is over: ", status.ToString());
  over_ = status;
}

void Checks::OnViewHeard(const View& view) {
  const auto [text, is_new] = views_.try_emplace(view.generation, TextOf(view));
  if (!is_new && text->second != TextOf(view)) {
    journal_->Fail("two views: ", text->second, " and ", TextOf(view));
  }
  const auto [heard, is_first] = heard_.try_emplace(view.self, view.generation);
  if (!is_first && view.generation <= heard->second) {
    journal_->Fail(NameOf(view.self), " hears of generation ", view.generation.value(), " after ",
                   heard->second.value());
  }
  heard->second = view.generation;
}

void Checks::OnTerm(const ChunkHeader& header) {
  const auto [term, is_new] =
      terms_.try_emplace({header.step, header.rank, header.bucket, header.offset}, header.checksum);
  if (!is_new && term->second != header.checksum) {
    journal_->Fail("two terms: ", ToString(header));
  }
}

void Checks::OnMeanTaken(Incarnation worker, Generation made_in, Generation view) {
  if (made_in == view) return;
  journal_->Fail(NameOf(worker), " takes a mean of generation ", made_in.value(), " in ",
                 view.value());
}

void Checks::OnTermHeld(Incarnation sender, Generation made_in, const View& view) {
  if (!IsMember(view, sender)) {
    journal_->Fail("a term of ", NameOf(sender), " counts in ", TextOf(view));
  }
  if (made_in != view.generation) {
    journal_->Fail("a term of generation ", made_in.value(), " counts in ", TextOf(view));
  }
}

void Checks::OnApply(Incarnation worker, Step step) {
  if (step <= first_open_) return;
  journal_->Fail(NameOf(worker), " applies a mean of step ", step.value(),
                 ", the first step that is not sealed is ", first_open_.value());
}

void Checks::Expect(std::map<uint64_t, uint64_t> Digests::*of, const char* what, Incarnation worker,
                    Step step, uint64_t digest) {
  const auto [own, is_new] = (digests_.*of).try_emplace(step.value(), digest);
  uint64_t expected = own->second;
  if (expected_ != nullptr) expected = (expected_->*of).at(step.value());
  if (digest == expected) return;
  journal_->Fail(NameOf(worker), " has other ", what, " before step ", step.value(),
                 is_new ? " than the faultless run" : " than others");
}

void Checks::OnApplied(Incarnation worker, Generation view, Step step, uint64_t parameters) {
  applied_[worker] = {view, step};
  Expect(&Digests::parameters, "parameters", worker, Step(step.value() + 1), parameters);
}

void Checks::OnBuffers(Incarnation worker, Step step, uint64_t buffers) {
  Expect(&Digests::buffers, "buffers", worker, Step(step.value() + 1), buffers);
}

void Checks::OnRewound(Incarnation worker, Step first, uint64_t parameters, uint64_t buffers) {
  if (first.value() == 0) {
    applied_.erase(worker);
  } else {
    applied_[worker].second = Step(first.value() - 1);
  }
  Expect(&Digests::parameters, "parameters", worker, first, parameters);
  Expect(&Digests::buffers, "buffers", worker, first, buffers);
}

void Checks::OnStepTold(Incarnation worker, Step step) {
  if (step < first_open_) return;
  journal_->Fail(NameOf(worker), " tells of step ", step.value(), ", which is not sealed");
}

void Checks::OnFinished(Incarnation worker, Step steps, uint64_t parameters, uint64_t buffers) {
  journal_->Say(NameOf(worker), " has finished");
  Expect(&Digests::parameters, "parameters", worker, steps, parameters);
  Expect(&Digests::buffers, "buffers", worker, steps, buffers);
  ++finished_;
}

void Checks::OnGaveUp(Incarnation worker, const absl::Status& status) {
  journal_->Say(NameOf(worker), " gives up: ", status.ToString());
  if (touched_.count(worker) > 0) return;
  journal_->Fail(NameOf(worker), " gives up, and no fault had touched it: ", status.ToString());
}

void Checks::OnEnd() {
  if (!over_.has_value()) {
    journal_->Fail("the run does not end");
  } else if (!over_->ok()) {
    journal_->Fail("the run failed: ", over_->ToString());
  } else if (finished_ == 0) {
    journal_->Fail("nobody finished");
  }
}

}  // namespace gradwire::simulate
