#include "coordinator/membership/lease.h"

#include <algorithm>
#include <vector>

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

}  // namespace gradwire
