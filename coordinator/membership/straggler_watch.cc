#include "coordinator/membership/straggler_watch.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/plain_text.h"

namespace gradwire {
namespace {

constexpr size_t kIterations = 21;
constexpr size_t kMostPhase = 40;
constexpr int kTimesTheMedian = 3;
constexpr absl::Duration kLeastPatience = absl::Seconds(2);
constexpr absl::Duration kHeard = absl::Seconds(1);  // longest silence of a healthy worker

int64_t Number(Step step) { return static_cast<int64_t>(step.value()); }

}  // namespace

// People read these texts, so their length is limited.
Work WorkOf(const v1::Work& work, absl::Time now) {
  Work told;
  told.step = Step(work.step());
  told.phase = Shortened(work.phase(), kMostPhase);
  told.waits = work.waits();
  if (work.has_bucket()) told.bucket = Bucket(static_cast<int>(work.bucket()));
  told.since = now - absl::Seconds(std::max(0.0, work.seconds()));
  told.told = now;
  told.generation = Generation(work.generation());
  return told;
}

void StragglerWatch::OnStep(absl::Duration iteration) {
  iterations_.push_back(iteration);
  if (iterations_.size() > kIterations) iterations_.pop_front();
}

void StragglerWatch::OnWork(Incarnation worker, Work work) { work_[worker] = std::move(work); }

void StragglerWatch::Forget() { work_.clear(); }

const Work* StragglerWatch::Find(Incarnation worker) const {
  const auto found = work_.find(worker);
  return found == work_.end() ? nullptr : &found->second;
}

absl::Duration StragglerWatch::Patience() const {
  if (iterations_.empty()) return absl::InfiniteDuration();  // a first step may take any time
  std::vector<absl::Duration> sorted(iterations_.begin(), iterations_.end());
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max(kTimesTheMedian * *middle, kLeastPatience);
}

const std::pair<const Incarnation, Work>* StragglerWatch::LongestWaiting(absl::Time now) const {
  const auto order = [this, now](const Work& work) {
    return std::make_tuple(now - work.told > silence_, -Number(work.step), work.since);
  };
  const std::pair<const Incarnation, Work>* first = nullptr;
  for (const auto& entry : work_) {
    if (!entry.second.waits) continue;
    if (first == nullptr || order(entry.second) < order(first->second)) first = &entry;
  }
  return first;
}

bool StragglerWatch::Holds(const Work& work, Step step, absl::Time now) const {
  if (now - work.told > silence_) return true;
  return work.step <= step && !work.waits;
}

bool StragglerWatch::IsOvertaken(const Work& work, Step step, absl::Time now) const {
  if (!work.waits || work.step >= step) return false;
  const auto is_heard = [now](const Work& of) { return now - of.told <= kHeard; };
  return !is_heard(work) || std::all_of(work_.begin(), work_.end(),
                                        [&](const auto& entry) { return is_heard(entry.second); });
}

std::vector<Straggler> StragglerWatch::Find(absl::Time now) {
  std::vector<Straggler> found;
  const auto* waiting = LongestWaiting(now);
  if (waiting == nullptr || now - waiting->second.since <= Patience()) return found;
  const Step step = waiting->second.step;
  const bool is_known = std::any_of(work_.begin(), work_.end(), [&](const auto& entry) {
    return Holds(entry.second, step, now);
  });
  for (const auto& [worker, work] : work_) {
    const bool holds = is_known ? Holds(work, step, now) : IsOvertaken(work, step, now);
    if (worker == waiting->first || !holds) continue;
    const auto named = named_.find(worker);
    if (named != named_.end() && named->second == step) continue;
    named_[worker] = step;
    found.push_back(
        {worker, step, now - waiting->second.since, waiting->first, waiting->second.bucket, work});
  }
  return found;
}

}  // namespace gradwire
