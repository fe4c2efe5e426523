// The part of Membership that handles copies of the workers' state, for checkpoints.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"
#include "common/state/state_plan.h"
#include "coordinator/membership/membership.h"

namespace gradwire {
namespace {

// A request names a step that no worker has begun: they are at most two steps apart.
constexpr uint64_t kStepsAhead = 3;

// Returns the name of the tensor that a digest is of. Tensors of section ranks that each rank has
// for itself have no digests, and come after those that all have in common. The last sections have
// none.
std::string NameOfTensor(const Participant& worker, size_t tensor) {
  size_t others = 0, of_ranks = 0;
  for (const v1::StateSection& section : worker.holds->sections()) {
    if (section.name() == kResidualsSection || section.name() == kProgramSection) continue;
    const auto count = static_cast<size_t>(section.tensors_size());
    (section.name() == kRanksSection ? of_ranks : others) += count;
  }
  const size_t digests = std::max(worker.held_digests.size(), others);
  size_t common = std::min(digests - others, of_ranks);
  for (const v1::StateSection& section : worker.holds->sections()) {
    auto count = static_cast<size_t>(section.tensors_size());
    if (section.name() == kRanksSection) {
      count = std::min(count, common);
      common -= count;
    }
    if (tensor < count) {
      return absl::StrCat("'", section.tensors(static_cast<int>(tensor)).key(), "' of section ",
                          section.name());
    }
    tensor -= count;
  }
  return absl::StrCat("tensor ", tensor);
}

}  // namespace

Outcome Membership::OnHolds(SessionId session, const v1::Holds& holds, absl::Time now) {
  Outcome outcome;
  Participant* worker = HearWorker(session, "Holds", now, &outcome);
  if (worker == nullptr) return outcome;
  if (!config_.keeps_state) return OnNonsense(session, "Holds in a run without checkpoints", now);
  if (holds.generation() != generation_.value() || paused_until_) {
    // The others gave up theirs with that view.
    outcome.actions.emplace_back(
        SendSaved{session, Step(holds.step()), Generation(holds.generation()), /*written=*/false});
    return outcome;
  }
  if (!holds.declined().empty()) {
    const Step step(holds.step());
    TellOfNone(step,
               absl::StrCat(NameOf(*worker), " has no copy, because ",
                            Shortened(holds.declined(), kMostCause)),
               &outcome);
    GiveUpHolds(step, &outcome);
    return outcome;
  }
  if (const Step step(holds.step()); declined_.count(step) > 0) {
    // Kept any longer, it would be in the way of the next copy.
    outcome.actions.emplace_back(SendSaved{session, step, generation_, /*written=*/false});
    return outcome;
  }
  worker->holds = holds;
  worker->holds->clear_digests();
  worker->held_digests.clear();
  for (const v1::TensorDigest& digest : holds.digests()) {
    worker->held_digests.push_back({digest.tensor(), digest.digest()});
  }
  if (!AllHold()) return outcome;
  const auto difference = CompareReplicas(roster_.Workers(), &Participant::held_digests);
  if (difference) {
    OnStateDifference(*difference, now, &outcome);
  } else {
    outcome.actions.emplace_back(TakeHolds());
  }
  return outcome;
}

void Membership::TellOfNone(Step step, const std::string& why, Outcome* outcome) {
  const bool is_first = declined_.insert(step).second;
  if (!is_first || step == taken_) return;  // copies of a step that was taken are being saved
  outcome->actions.emplace_back(TellNoCheckpoint{step, why});
  outcome->Say(absl::StrCat("no checkpoint before step ", step.value(), ": ", why));
  outcome->warns = true;
}

// The next view begins with the open step, so copies before that and later ones are made again.
void Membership::GiveUpAllHolds(const std::string& why, Outcome* outcome) {
  declined_.clear();
  for (const Participant* worker : roster_.Workers()) {
    if (!worker->holds || worker->holds->step() >= open_.value()) continue;
    TellOfNone(Step(worker->holds->step()), why, outcome);
  }
  GiveUpHolds(std::nullopt, outcome);
}

bool Membership::AllHold() const {
  const auto workers = roster_.Workers();
  const auto& first = workers.front()->holds;
  return std::all_of(workers.begin(), workers.end(), [&first](const Participant* worker) {
    return first && worker->holds && worker->holds->step() == first->step();
  });
}

SaveState Membership::TakeHolds() {
  SaveState save;
  save.generation = generation_;
  save.settings = settings_;
  save.threads = threads_;
  for (Participant* worker : roster_.Workers()) {
    v1::Holds& holds = *worker->holds;
    save.step = Step(holds.step());
    save.total_steps = holds.total_steps();
    save.steps_per_epoch = holds.steps_per_epoch();
    save.optimizer = holds.optimizer();
    save.environment = worker->environment;
    save.donors.push_back({worker->incarnation,
                           Describe(*worker),
                           worker->address,
                           {holds.sections().begin(), holds.sections().end()}});
    worker->holds.reset();
  }
  taken_ = save.step;
  declined_.erase(declined_.begin(), declined_.lower_bound(taken_));  // no copies of these are left
  return save;
}

// The workers with equal state go on; the others' ranks are computed again.
void Membership::OnStateDifference(const ReplicaDifference& difference, absl::Time now,
                                   Outcome* outcome) {
  const Participant& first = *roster_.Workers().front();
  const std::string where = absl::StrCat("before step ", first.holds->step(), ", first in ",
                                         NameOfTensor(first, difference.tensor));
  GiveUpAllHolds("the workers' states differ", outcome);
  if (difference.minority.empty()) {
    return Fail(absl::AbortedError(absl::StrCat("the workers' states differ ", where,
                                                ", and no majority says which are right")),
                outcome);
  }
  for (const Incarnation incarnation : difference.minority) {
    if (IsOver()) return;
    OnLoss(roster_.Find(incarnation), absl::StrCat("its state differs from the others' ", where),
           now, outcome);
  }
}

void Membership::GiveUpHolds(std::optional<Step> step, Outcome* outcome) {
  for (Participant* worker : roster_.Workers()) {
    if (!worker->holds || (step && worker->holds->step() != step->value())) continue;
    if (worker->session) {
      outcome->actions.emplace_back(SendSaved{*worker->session, Step(worker->holds->step()),
                                              Generation(worker->holds->generation()),
                                              /*written=*/false});
    }
    worker->holds.reset();
  }
}

Outcome Membership::OnSaveRequest() {
  Outcome outcome;
  if (!config_.keeps_state || state_ != State::kRunning) return outcome;
  uint64_t furthest = open_.value();
  for (int rank = 0; rank < config_.world_size; ++rank) {
    furthest = std::max(furthest, steps_.Of(Rank(rank)).steps_done());
  }
  const Step step(furthest + kStepsAhead);
  for (const Participant* worker : roster_.Workers()) {
    if (worker->session) outcome.actions.emplace_back(SendSave{*worker->session, step});
  }
  outcome.why = absl::StrCat("a checkpoint before step ", step.value(), " was asked for");
  return outcome;
}

Outcome Membership::OnSaved(Step step, Generation generation, bool written) {
  Outcome outcome;
  for (const Participant* worker : roster_.Workers()) {
    if (!worker->session) continue;
    outcome.actions.emplace_back(SendSaved{*worker->session, step, generation, written});
  }
  return outcome;
}

}  // namespace gradwire
