#include "coordinator/pages/run_history.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/telemetry/mean_estimate.h"

namespace gradwire {
namespace {

constexpr size_t kPoints = 4096;
constexpr size_t kEvents = 100;
constexpr size_t kRecentSteps = 20;
// Ranks are never that far apart; a rank that reports more must be faulty.
constexpr size_t kMostUnderWay = 4096;

// A slowest rank exceeds the others by this many standard errors.
constexpr double kStandardErrors = 2;

// In seconds.
MeanEstimate EstimateOf(const std::deque<absl::Duration>& times) {
  MeanEstimate estimate;
  for (const absl::Duration time : times) estimate.Add(absl::ToDoubleSeconds(time));
  return estimate;
}

// Then both have the times of that worker.
bool ShareWorker(const std::map<Rank, std::string>& workers, Rank a, Rank b) {
  const auto of_a = workers.find(a);
  const auto of_b = workers.find(b);
  return of_a != workers.end() && of_b != workers.end() && of_a->second == of_b->second;
}

HistoryPoint PointOf(const RunHistory::StepOfRanks& ranks, absl::Time now) {
  HistoryPoint point;
  point.first = ranks.front().step;
  point.steps = 1;
  point.end = now;
  const double world_size = static_cast<double>(ranks.size());
  for (const StepRecord& record : ranks) {
    point.iteration += record.iteration / world_size;
    for (const PhaseInfo& info : kPhases) {
      point.phases[info.phase] += record.phases[info.phase] / world_size;
    }
    point.longest = std::max(point.longest, record.iteration);
    point.samples += static_cast<double>(record.samples);
    point.bytes_sent += static_cast<double>(record.bytes_sent);
  }
  // One rank's loss that is not finite must not spoil the mean.
  if (const auto loss = MeanLoss(ranks); loss && std::isfinite(*loss)) point.loss = loss;
  return point;
}

// Merges `a` and the point after it.
HistoryPoint Merge(const HistoryPoint& a, const HistoryPoint& b) {
  HistoryPoint point = b;
  point.first = a.first;
  point.steps = a.steps + b.steps;
  const double part = static_cast<double>(a.steps) / static_cast<double>(point.steps);
  const auto mix = [part](auto x, auto y) { return x * part + y * (1 - part); };
  point.iteration = mix(a.iteration, b.iteration);
  for (const PhaseInfo& info : kPhases) {
    point.phases[info.phase] = mix(a.phases[info.phase], b.phases[info.phase]);
  }
  point.longest = std::max(a.longest, b.longest);
  point.loss = a.loss && b.loss ? mix(*a.loss, *b.loss) : a.loss ? a.loss : b.loss;
  point.samples = mix(a.samples, b.samples);
  point.bytes_sent = mix(a.bytes_sent, b.bytes_sent);
  return point;
}

// Merges groups of `size` points; the last group may be smaller.
std::vector<HistoryPoint> MergeEach(size_t size, const std::vector<HistoryPoint>& points) {
  std::vector<HistoryPoint> merged;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i % size == 0) {
      merged.push_back(points[i]);
    } else {
      merged.back() = Merge(merged.back(), points[i]);
    }
  }
  return merged;
}

}  // namespace

double HistoryPoint::samples_per_second() const {
  const double seconds = absl::ToDoubleSeconds(iteration);
  return seconds > 0 ? samples / seconds : 0;
}

std::optional<double> MeanLoss(const RunHistory::StepOfRanks& ranks) {
  double sum = 0;
  int told = 0;
  for (const StepRecord& record : ranks) {
    if (!record.loss_told) continue;
    sum += record.loss;
    ++told;
  }
  if (told == 0) return std::nullopt;
  return sum / told;
}

void RunHistory::Begin(int world_size, absl::Time now) {
  MutexLock lock(&mutex_);
  world_size_ = static_cast<size_t>(world_size);
  started_ = now;
  under_way_.clear();
}

std::optional<RunHistory::StepOfRanks> RunHistory::Add(const StepRecord& record,
                                                       uint64_t total_steps, absl::Time now) {
  MutexLock lock(&mutex_);
  total_steps_ = total_steps;
  OfRank& of_rank = ranks_[record.rank];
  of_rank.last = record;
  of_rank.work.push_back(OwnWork(record));
  if (of_rank.work.size() > kRecentSteps) of_rank.work.pop_front();
  CheckLoss(record, now);
  if (under_way_.size() >= kMostUnderWay && under_way_.count(record.step) == 0) {
    return std::nullopt;
  }
  std::map<Rank, StepRecord>& told = under_way_[record.step];
  told[record.rank] = record;
  if (told.size() < world_size_) return std::nullopt;
  StepOfRanks ranks;
  for (const auto& entry : told) ranks.push_back(entry.second);
  // Drops earlier steps that a rank never reported because its worker was lost.
  under_way_.erase(under_way_.begin(), under_way_.upper_bound(record.step));
  AddPoint(PointOf(ranks, now));
  return ranks;
}

void RunHistory::CheckLoss(const StepRecord& record, absl::Time now) {
  OfRank& of_rank = ranks_[record.rank];
  if (!of_rank.is_finite || !record.loss_told || std::isfinite(record.loss)) return;
  of_rank.is_finite = false;
  Push({now, record.step, "not-finite",
        absl::StrCat("the loss of rank ", record.rank.value(), " is ", record.loss)});
}

void RunHistory::AddPoint(HistoryPoint point) {
  if (!points_.empty() && points_.back().steps < resolution_) {
    points_.back() = Merge(points_.back(), point);
    return;
  }
  if (points_.size() == kPoints) {
    points_ = MergeEach(2, points_);
    resolution_ *= 2;
  }
  points_.push_back(std::move(point));
}

void RunHistory::AddEvent(RunEvent event) {
  MutexLock lock(&mutex_);
  Push(std::move(event));
}

void RunHistory::SetCheckpoint(const LastCheckpoint& checkpoint) {
  MutexLock lock(&mutex_);
  checkpoint_ = checkpoint;
}

std::optional<LastCheckpoint> RunHistory::checkpoint() const {
  MutexLock lock(&mutex_);
  return checkpoint_;
}

void RunHistory::AddAggregation(const AggregationTimes& iteration) {
  MutexLock lock(&mutex_);
  ++aggregation_.iterations;
  aggregation_.times += iteration;
}

AggregationTotals RunHistory::aggregation() const {
  MutexLock lock(&mutex_);
  return aggregation_;
}

void RunHistory::Push(RunEvent event) {
  events_.push_back(std::move(event));
  if (events_.size() > kEvents) events_.pop_front();
}

std::optional<absl::Time> RunHistory::started() const {
  MutexLock lock(&mutex_);
  return started_;
}

std::vector<RunEvent> RunHistory::Events() const {
  MutexLock lock(&mutex_);
  return {events_.begin(), events_.end()};
}

std::optional<RankProgress> RunHistory::ProgressOf(Rank rank) const {
  MutexLock lock(&mutex_);
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return std::nullopt;
  const std::deque<absl::Duration>& work = found->second.work;
  const auto sum = std::accumulate(work.begin(), work.end(), absl::ZeroDuration());
  return RankProgress{found->second.last, sum / static_cast<int64_t>(work.size())};
}

std::optional<Rank> RunHistory::Slowest(const std::map<Rank, std::string>& workers) const {
  std::map<Rank, MeanEstimate> ranks;
  {
    MutexLock lock(&mutex_);
    for (const auto& [rank, of_rank] : ranks_) ranks[rank] = EstimateOf(of_rank.work);
  }
  if (ranks.empty()) return std::nullopt;
  const auto slow = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.second.mean() < b.second.mean();
  });
  std::vector<MeanEstimate> others;
  for (const auto& [rank, estimate] : ranks) {
    if (rank == slow->first || ShareWorker(workers, rank, slow->first)) continue;
    others.push_back(estimate);
  }
  if (others.empty()) return std::nullopt;
  const auto count = static_cast<double>(others.size());
  double excess = slow->second.mean();
  double variance = slow->second.variance();
  for (const MeanEstimate& estimate : others) {
    excess -= estimate.mean() / count;
    variance += estimate.variance() / (count * count);
  }
  if (excess <= kStandardErrors * std::sqrt(variance)) return std::nullopt;
  return slow->first;
}

uint64_t RunHistory::total_steps() const {
  MutexLock lock(&mutex_);
  return total_steps_;
}

std::vector<HistoryPoint> RunHistory::Points(size_t most) const {
  std::vector<HistoryPoint> points;
  {
    MutexLock lock(&mutex_);
    points = points_;
  }
  if (points.size() <= most) return points;
  return MergeEach((points.size() + most - 1) / most, points);
}

}  // namespace gradwire
