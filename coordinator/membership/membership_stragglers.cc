// The part of Membership that names workers which hold up the others.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/membership/membership.h"

namespace gradwire {
namespace {

std::string InTenths(absl::Duration duration) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(duration));
}

// "rank 2 (host:port) holds up step 17: rank 0 has waited for 3.1 s, for bucket 3; rank 2 has been
// in backward of step 17 for 4.2 s (last report 0.4 s ago)".
std::string Sentence(const Straggler& straggler, const Participant& worker,
                     const Participant& waiting, absl::Time now) {
  std::string text = absl::StrCat(Describe(worker), worker.ranks.size() > 1 ? " hold" : " holds",
                                  " up step ", straggler.step.value(), ": ", NameOf(waiting),
                                  waiting.ranks.size() > 1 ? " have" : " has", " waited for ",
                                  InTenths(straggler.waited));
  if (straggler.bucket) absl::StrAppend(&text, ", for bucket ", straggler.bucket->value());
  absl::StrAppend(&text, "; ", NameOf(worker), worker.ranks.size() > 1 ? " have" : " has",
                  " been in ", straggler.work.phase, " of step ", straggler.work.step.value(),
                  " for ", InTenths(now - straggler.work.since), " (last report ",
                  InTenths(now - straggler.work.told), " ago)");
  return text;
}

}  // namespace

void Membership::NoteWork(Incarnation worker, const v1::Work& told, absl::Time now) {
  Work work = WorkOf(told, now);
  work.since = std::max(work.since, went_on_);  // it may have begun in the previous view
  stragglers_.OnWork(worker, std::move(work));
}

std::optional<Work> Membership::WorkInThisView(Incarnation worker) const {
  const Work* work = stragglers_.Find(worker);
  if (work == nullptr || work->generation != generation_) return std::nullopt;
  return *work;
}

void Membership::NameStragglers(absl::Time now, Outcome* outcome) {
  for (const Straggler& straggler : stragglers_.Find(now)) {
    const Participant* worker = roster_.Find(straggler.worker);
    const Participant* waiting = roster_.Find(straggler.waiting);
    if (worker == nullptr || waiting == nullptr) continue;
    const std::string sentence = Sentence(straggler, *worker, *waiting, now);
    outcome->actions.emplace_back(TellStraggler{worker->ranks, straggler.step, sentence});
    outcome->Say(sentence);
  }
}

}  // namespace gradwire
