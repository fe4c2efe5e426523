#include "bench/rank/collective_loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// CPU time of all threads of this process so far.
double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

absl::Span<uint8_t> BytesOf(absl::Span<float> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)};
}

absl::Span<float> FloatsOf(absl::Span<uint8_t> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

absl::Span<uint8_t> BytesOf(float* value) {
  return {reinterpret_cast<uint8_t*>(value), sizeof(*value)};
}

}  // namespace

std::vector<BucketSpec> LoopBuckets(const LoopOptions& options) {
  std::vector<BucketSpec> buckets = {options.operation.BucketOf(options.bytes)};
  const bool is_gated = options.operation.collective != v1::COLLECTIVE_ALL_REDUCE;
  if (is_gated) buckets.push_back({sizeof(float), v1::DTYPE_FLOAT32});
  return buckets;
}

CollectiveLoop::CollectiveLoop(Exchange* exchange, Rank rank, int world_size,
                               const Pattern* pattern, const LoopOptions& options)
    : exchange_(exchange),
      rank_(rank),
      pattern_(*pattern),
      options_(options),
      buckets_(LoopBuckets(options)),
      expected_(ExpectedOf(options.operation, rank, world_size, options.bytes / sizeof(float))) {}

CollectiveLoop::~CollectiveLoop() {
  if (gate_ended_.valid()) gate_ended_.wait();
}

absl::Status CollectiveLoop::MakeTensors() {
  const size_t count = options_.bytes / sizeof(float);
  if (!options_.shared_tensors) {
    own_.resize(2 * count);
    terms_ = absl::MakeSpan(own_).first(count);
    mean_ = absl::MakeSpan(own_).last(count);
    return absl::OkStatus();
  }
  shared_terms_ = exchange_->TermsMemory(LayoutId(0), Bucket(0), rank_);
  shared_mean_ = exchange_->ResultMemory(LayoutId(0), Bucket(0));
  if (shared_terms_.bytes.empty() || shared_mean_.bytes.empty()) {
    return absl::FailedPreconditionError(
        "the back end has no memory for the tensors of this operation and wire type, expected back "
        "end memory, an all-reduce and fp32");
  }
  terms_ = FloatsOf(shared_terms_.bytes);
  mean_ = FloatsOf(shared_mean_.bytes);
  return absl::OkStatus();
}

absl::StatusOr<LoopResult> CollectiveLoop::Run() {
  absl::Status status = MakeTensors();
  if (status.ok()) status = CheckedIterations(2);
  if (!status.ok()) return status;
  const auto warmup = Agree(options_.warmup, last_seconds_, options_.limit / 4);
  if (!warmup.ok()) return warmup.status();
  status = CheckedIterations(*warmup);
  if (!status.ok()) return status;
  const auto iterations = Agree(options_.iterations, last_seconds_, options_.limit);
  if (!iterations.ok()) return iterations.status();
  status = Measure(*iterations);
  if (status.ok()) status = CheckedIterations(1);
  if (!status.ok()) return status;
  result_.iterations_in_all = step_.value();
  return std::move(result_);
}

absl::StatusOr<Shown> CollectiveLoop::Show() {
  absl::Status status = MakeTensors();
  if (!status.ok()) return status;
  for (size_t i = 0; i < terms_.size(); ++i) terms_[i] = static_cast<float>(10 * rank_.value() + i);
  status = Operate();
  if (!status.ok()) return status;
  Shown shown = {{terms_.begin(), terms_.end()}, {}, exchange_->totals()};
  status = PassGate(0);
  if (!status.ok()) return status;
  shown.output.resize(mean_.size());
  for (const Expected& part : expected_) {
    for (size_t i = part.begin; i < part.end; ++i) shown.output[i] = mean_[i];
  }
  return shown;
}

absl::Status CollectiveLoop::Wait(std::future<absl::Status> ended) const {
  return Annotate(ended.get(), absl::StrCat("iteration ", step_.value()));
}

absl::Status CollectiveLoop::Operate() {
  const auto expect = [this](int bucket, absl::Span<uint8_t> result) {
    auto ended = std::make_shared<std::promise<absl::Status>>();
    exchange_->Expect(KeyOf(bucket), result, SteadyNow() + options_.step_timeout,
                      [ended](absl::Status status) { ended->set_value(std::move(status)); });
    return ended->get_future();
  };
  std::future<absl::Status> ended = expect(0, BytesOf(mean_));
  if (buckets_.size() > 1) gate_ended_ = expect(1, BytesOf(&gate_));
  if (Contributes(buckets_[0], rank_)) exchange_->Contribute(KeyOf(0), rank_, BytesOf(terms_));
  return Wait(std::move(ended));
}

absl::Status CollectiveLoop::PassGate(float proposal) {
  absl::Status status;
  if (buckets_.size() > 1) {
    proposal_ = proposal;
    exchange_->Contribute(KeyOf(1), rank_, BytesOf(&proposal_));
    status = Wait(std::move(gate_ended_));
  }
  ++step_;
  return status;
}

absl::StatusOr<double> CollectiveLoop::TimedIteration(float proposal) {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = Operate();
  const auto end = std::chrono::steady_clock::now();
  if (status.ok()) status = PassGate(proposal);
  if (!status.ok()) return status;
  return std::chrono::duration<double>(end - start).count();
}

absl::Status CollectiveLoop::CheckedIterations(int count) {
  for (int i = 0; i < count; ++i) {
    const Step step = step_;
    pattern_.Fill(step, terms_);
    for (float& value : Erasable()) value = std::numeric_limits<float>::quiet_NaN();
    const absl::StatusOr<double> seconds = TimedIteration();
    if (!seconds.ok()) return seconds.status();
    last_seconds_ = *seconds;
    result_.wrong += pattern_.CountWrong(step, mean_, expected_);
    for (const Expected& part : expected_) result_.checked += part.end - part.begin;
  }
  return absl::OkStatus();
}

absl::Status CollectiveLoop::Measure(int count) {
  const TransferTotals before = exchange_->totals();
  const double cpu_before = CpuSeconds();
  for (int i = 0; i < count; ++i) {
    const Step step = step_;
    pattern_.FillSamples(step, terms_, Erasable());
    const absl::StatusOr<double> seconds = TimedIteration();
    if (!seconds.ok()) return seconds.status();
    result_.seconds.push_back(*seconds);
    result_.wrong += pattern_.CountWrongSamples(step, mean_, expected_, &result_.checked);
  }
  result_.cpu_seconds = CpuSeconds() - cpu_before;
  const TransferTotals after = exchange_->totals();
  result_.moved = {after.bytes_sent - before.bytes_sent,
                   after.bytes_received - before.bytes_received};
  return absl::OkStatus();
}

absl::StatusOr<int> CollectiveLoop::Agree(int asked, double seconds, absl::Duration limit) {
  // Whole percents: sums of small integers are exact in every order and every wire format, so all
  // ranks get the same mean.
  const double part = absl::ToDoubleSeconds(limit) / std::max(seconds * asked, 1e-9);
  const auto percent = static_cast<float>(std::clamp(std::floor(100 * part), 0.0, 100.0));
  std::fill(terms_.begin(), terms_.end(), percent);
  const absl::StatusOr<double> agreed = TimedIteration(percent);
  if (!agreed.ok()) return agreed.status();
  const float mean = buckets_.size() > 1 ? gate_ : mean_[0];
  return std::max(1, static_cast<int>(asked * mean / 100));
}

}  // namespace gradwire
