#include "coordinator/membership/participant.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"
#include "common/wire/xxh3.h"

namespace gradwire {

namespace {

constexpr int kTimesTheGap = 8;
constexpr int kTimesTheLag = 4;

}  // namespace

void RecentDurations::Add(absl::Duration duration) {
  durations_.push_back(duration);
  if (durations_.size() > most_) durations_.pop_front();
}

absl::Duration RecentDurations::Percentile(int percent) const {
  if (durations_.empty()) return absl::ZeroDuration();
  std::vector<absl::Duration> sorted(durations_.begin(), durations_.end());
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  const auto at = sorted.begin() + static_cast<int64_t>(rank - 1);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

void HeartbeatGaps::OnHeartbeat(absl::Time now) {
  if (last_.has_value()) gaps_.Add(now - *last_);
  last_ = now;
}

void HeartbeatGaps::OnPause(absl::Duration paused, absl::Time now) {
  if (last_.has_value()) last_ = std::min(now, *last_ + paused);
}

std::optional<absl::Duration> HeartbeatGaps::Usual() const {
  if (gaps_.size() < kEnough) return std::nullopt;
  return gaps_.Percentile(99);
}

absl::Duration TickLag::longest() const {
  return std::max(absl::ZeroDuration(), lags_.Percentile(100));
}

absl::Duration LeaseFor(const HeartbeatGaps& gaps, const TickLag& lag, const LeaseLimits& limits) {
  const std::optional<absl::Duration> usual = gaps.Usual();
  if (!usual.has_value()) return limits.most;
  const absl::Duration wanted =
      std::max({limits.least, kTimesTheGap * *usual, kTimesTheLag * lag.longest()});
  return std::min(wanted, limits.most);
}

Wish WishOf(const v1::Hello& hello) {
  Wish wish;
  for (uint32_t rank : hello.ranks()) wish.emplace_back(static_cast<int>(rank));
  return wish;
}

Participant WorkerOf(SessionId session, const v1::Hello& hello, absl::Time now) {
  Participant worker;
  worker.session = session;
  worker.incarnation = Incarnation(hello.incarnation());
  worker.address = hello.address();
  worker.last_heard = now;
  worker.wish = WishOf(hello);
  worker.metrics = hello.metrics();
  worker.threads = static_cast<int>(hello.threads());
  worker.cores = static_cast<int>(hello.cores());
  worker.host = hello.host();
  worker.memory = hello.memory();
  worker.limits = LimitsFromProto(hello.memory_limits());
  worker.cannot_recover = hello.cannot_recover();
  worker.pid = hello.pid();
  worker.environment = {hello.environment().begin(), hello.environment().end()};
  return worker;
}

Participant AggregatorOf(SessionId session, const v1::Offer& offer, absl::Time now) {
  Participant aggregator;
  aggregator.session = session;
  aggregator.incarnation = Incarnation(offer.incarnation());
  aggregator.address = offer.address();
  aggregator.last_heard = now;
  aggregator.share = 0;
  return aggregator;
}

std::string NameOf(const Participant& participant) {
  if (participant.share) return absl::StrCat("aggregator ", *participant.share);
  return NameOf(participant.ranks);
}

std::string Describe(const Participant& participant) {
  return absl::StrCat(NameOf(participant), " (", participant.address, ")");
}

int ThreadsFor(const std::vector<const Participant*>& workers) {
  std::map<std::string, int> ranks;  // by host
  for (const Participant* worker : workers) {
    if (worker->threads > 0) return worker->threads;
    ranks[worker->host] += static_cast<int>(worker->ranks.size());
  }
  int smallest = std::numeric_limits<int>::max();
  for (const Participant* worker : workers) {
    smallest = std::min(smallest, std::max(1, worker->cores / ranks[worker->host]));
  }
  return smallest;
}

namespace {

using Digests = std::vector<TensorDigest>;

// `a` and `b` must differ.
size_t FirstDifference(const Digests& a, const Digests& b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at_a != a.end() ? at_a->tensor : at_b->tensor;
}

}  // namespace

absl::Status CheckSamples(const Participant& worker, const v1::Ready& ready) {
  if (ready.samples().empty()) return absl::OkStatus();
  std::vector<Rank> ranks;
  for (const v1::RankSamples& samples : ready.samples()) {
    ranks.emplace_back(static_cast<int>(samples.rank()));
  }
  if (ranks == worker.ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Ready with samples of ", NameOf(ranks), ", expected ", NameOf(worker.ranks)));
}

uint64_t DigestOf(const std::vector<TensorDigest>& digests) {
  std::vector<uint64_t> words;
  for (const TensorDigest& digest : digests) {
    words.push_back(digest.tensor);
    words.push_back(digest.digest);
  }
  return Xxh3InUse().whole(words.data(), words.size() * sizeof(uint64_t));
}

std::optional<ReplicaDifference> CompareReplicas(const std::vector<Participant*>& workers,
                                                 std::vector<TensorDigest> Participant::*digests) {
  const auto equal_to = [digests](const Participant* worker) {
    return [=](const Participant* other) { return other->*digests == worker->*digests; };
  };
  const auto is_common = [&](const Participant* worker) {
    const auto equal = std::count_if(workers.begin(), workers.end(), equal_to(worker));
    return 2 * static_cast<size_t>(equal) > workers.size();
  };
  const auto common = std::find_if(workers.begin(), workers.end(), is_common);
  const Participant* const expected = common != workers.end() ? *common : workers.front();
  ReplicaDifference difference;
  std::vector<Incarnation> others;
  for (const Participant* worker : workers) {
    if (worker->*digests == expected->*digests) continue;
    if (others.empty()) difference.tensor = FirstDifference(expected->*digests, worker->*digests);
    others.push_back(worker->incarnation);
  }
  if (others.empty()) return std::nullopt;
  if (common != workers.end()) difference.minority = others;
  return difference;
}

}  // namespace gradwire
