#include "bench/rank/collective_loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// Of this process so far, all threads.
double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

absl::Span<uint8_t> BytesOf(std::vector<float>* values) {
  return {reinterpret_cast<uint8_t*>(values->data()), values->size() * sizeof(float)};
}

}  // namespace

CollectiveLoop::CollectiveLoop(Exchange* exchange, Rank rank, const Pattern* pattern,
                               const LoopOptions& options)
    : exchange_(exchange),
      rank_(rank),
      pattern_(*pattern),
      options_(options),
      terms_(options.bytes / sizeof(float)),
      mean_(options.bytes / sizeof(float)) {}

absl::StatusOr<LoopResult> CollectiveLoop::Run() {
  absl::Status status = CheckedAverages(2);
  if (!status.ok()) return status;
  const auto warmup = Agree(options_.warmup, last_seconds_, options_.limit / 4);
  if (!warmup.ok()) return warmup.status();
  status = CheckedAverages(*warmup);
  if (!status.ok()) return status;
  const auto iterations = Agree(options_.iterations, last_seconds_, options_.limit);
  if (!iterations.ok()) return iterations.status();
  status = Measure(*iterations);
  if (status.ok()) status = CheckedAverages(1);
  if (!status.ok()) return status;
  result_.iterations_in_all = step_.value();
  return std::move(result_);
}

absl::Status CollectiveLoop::Average() {
  std::promise<absl::Status> ended;
  const BucketKey key{LayoutId(0), step_, Bucket(0)};
  exchange_->Expect(key, BytesOf(&mean_), SteadyNow() + options_.step_timeout,
                    [&ended](absl::Status status) { ended.set_value(std::move(status)); });
  exchange_->Contribute(key, rank_, BytesOf(&terms_));
  const absl::Status status = ended.get_future().get();
  const std::string iteration = absl::StrCat("iteration ", step_.value());
  ++step_;
  return Annotate(status, iteration);
}

absl::StatusOr<double> CollectiveLoop::TimedAverage() {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = Average();
  const auto end = std::chrono::steady_clock::now();
  if (!status.ok()) return status;
  return std::chrono::duration<double>(end - start).count();
}

absl::Status CollectiveLoop::CheckedAverages(int count) {
  for (int i = 0; i < count; ++i) {
    const Step step = step_;
    pattern_.Fill(step, absl::MakeSpan(terms_));
    std::fill(mean_.begin(), mean_.end(), std::numeric_limits<float>::quiet_NaN());
    const absl::StatusOr<double> seconds = TimedAverage();
    if (!seconds.ok()) return seconds.status();
    last_seconds_ = *seconds;
    result_.wrong += pattern_.CountWrong(step, mean_);
    result_.checked += mean_.size();
  }
  return absl::OkStatus();
}

absl::Status CollectiveLoop::Measure(int count) {
  const TransferTotals before = exchange_->totals();
  const double cpu_before = CpuSeconds();
  for (int i = 0; i < count; ++i) {
    const Step step = step_;
    pattern_.FillSamples(step, absl::MakeSpan(terms_), absl::MakeSpan(mean_));
    const absl::StatusOr<double> seconds = TimedAverage();
    if (!seconds.ok()) return seconds.status();
    result_.seconds.push_back(*seconds);
    result_.wrong += pattern_.CountWrongSamples(step, mean_);
    result_.checked += pattern_.SampleCount(mean_.size());
  }
  result_.cpu_seconds = CpuSeconds() - cpu_before;
  const TransferTotals after = exchange_->totals();
  result_.moved = {after.bytes_sent - before.bytes_sent,
                   after.bytes_received - before.bytes_received};
  return absl::OkStatus();
}

absl::StatusOr<int> CollectiveLoop::Agree(int asked, double seconds, absl::Duration limit) {
  // Whole per cent: small whole numbers have an exact sum in every order and in
  // every format on the wire, so that all ranks get the same mean.
  const double part = absl::ToDoubleSeconds(limit) / std::max(seconds * asked, 1e-9);
  std::fill(terms_.begin(), terms_.end(),
            static_cast<float>(std::clamp(std::floor(100 * part), 0.0, 100.0)));
  absl::Status status = Average();
  if (!status.ok()) return status;
  return std::max(1, static_cast<int>(asked * mean_[0] / 100));
}

}  // namespace gradwire
