#include "worker/backends/transfer_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/wire/layout.h"

namespace gradwire {

void OverflowMonitor::Note(Step step, Rank rank) {
  uint64_t steps;
  {
    MutexLock lock(&mutex_);
    if (last_ == step) return;
    last_ = step;
    steps = ++steps_;
  }
  if ((steps & (steps - 1)) != 0) return;
  spdlog::warn("{}", OverflowMessage(wire_, step, rank, steps, sums_));
}

uint64_t OverflowMonitor::steps() const {
  MutexLock lock(&mutex_);
  return steps_;
}

std::string OverflowMessage(v1::DType wire, Step step, Rank rank, uint64_t steps, bool sums) {
  const bool is_half = wire == v1::DTYPE_FLOAT16;
  return absl::StrCat(
      "step ", step.value(), ", rank ", rank.value(), ": a gradient",
      sums ? ", or a sum of some ranks' gradients," : "", " is too large for ", WireName(wire),
      is_half ? " (above 65504)" : " (above 3.39e38)",
      " and became infinite on the wire, so the mean of all ranks is infinite, too; ",
      is_half ? "--wire bf16 has the range of fp32, and a smaller --lr keeps gradients small"
              : "a smaller --lr keeps gradients small",
      " (steps with such gradients: ", steps, ")");
}

absl::Status EndForPeers(const absl::Status& failure) {
  return absl::IsUnavailable(failure) ? absl::AbortedError(failure.message()) : failure;
}

TransferTable::TransferTable(Hooks hooks, Step first) : hooks_(std::move(hooks)), first_(first) {}

TransferTable::~TransferTable() = default;

void TransferTable::Start() {
  keeper_ = std::thread([this] { Keep(); });
}

void TransferTable::Close() {
  Fail(absl::CancelledError("the exchange is over"), absl::nullopt);
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    keeper_wakes_.NotifyAll();
  }
  if (keeper_.joinable()) keeper_.join();
}

void TransferTable::AddLayout(LayoutId layout, std::vector<BucketSpec> specs) {
  MutexLock lock(&mutex_);
  layouts_.emplace(layout, std::move(specs));
  changed_.NotifyAll();
}

const std::vector<BucketSpec>* TransferTable::WaitForLayout(LayoutId layout) {
  MutexLock lock(&mutex_);
  while (failure_.ok()) {
    const auto found = layouts_.find(layout);
    if (found != layouts_.end()) return &found->second;
    changed_.Wait(&mutex_);
  }
  return nullptr;
}

const BucketSpec& TransferTable::SpecOf(const BucketKey& key) const {
  MutexLock lock(&mutex_);
  return layouts_.at(key.layout)[key.bucket.value()];
}

bool TransferTable::Add(std::shared_ptr<Transfer> transfer) {
  MutexLock lock(&mutex_);
  Step& open_step = open_steps_.try_emplace(transfer->key.layout, first_).first->second;
  open_step = std::max(open_step, transfer->key.step);
  const BucketKey key = transfer->key;
  // Waking the keeper for each bucket would cost a 4 KiB bucket a sixth of its time or more.
  if (transfer->deadline < watched_ || !failure_.ok()) keeper_wakes_.NotifyAll();
  transfers_[key] = std::move(transfer);
  return failure_.ok();
}

std::shared_ptr<Transfer> TransferTable::Find(const BucketKey& key) const {
  MutexLock lock(&mutex_);
  const auto found = transfers_.find(key);
  return found == transfers_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Transfer>> TransferTable::All() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Transfer>> all;
  for (const auto& [key, transfer] : transfers_) all.push_back(transfer);
  return all;
}

// A peer may be one step ahead of this worker.
absl::Status TransferTable::CheckStep(LayoutId layout, Step step) const {
  MutexLock lock(&mutex_);
  const auto found = open_steps_.find(layout);
  const uint64_t open = (found == open_steps_.end() ? first_ : found->second).value();
  if (step.value() == open || step.value() == open + 1) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("got step ", step.value(), ", expected the open step ", open, " or the next"));
}

void TransferTable::Complete(const BucketKey& key) {
  std::shared_ptr<Transfer> transfer;
  {
    MutexLock lock(&mutex_);
    const auto found = transfers_.find(key);
    if (found == transfers_.end()) return;
    transfer = std::move(found->second);
    transfers_.erase(found);
  }
  transfer->done(transfer->lender.Reclaim(absl::OkStatus()));
}

void TransferTable::Fail(const absl::Status& status, absl::optional<Incarnation> suspect) {
  std::vector<Incarnation> suspects;
  if (suspect.has_value()) suspects.push_back(*suspect);
  FailAt(status, std::move(suspects));
}

void TransferTable::FailAt(const absl::Status& status, std::vector<Incarnation> suspects) {
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    suspects_ = std::move(suspects);
    failed_at_ = SteadyNow();
    changed_.NotifyAll();
    keeper_wakes_.NotifyAll();
  }
  hooks_.stop(status);
  MutexLock lock(&mutex_);
  stopped_ = true;
  keeper_wakes_.NotifyAll();
}

absl::Status TransferTable::failure() const {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::optional<Suspect> TransferTable::suspect() const {
  MutexLock lock(&mutex_);
  if (suspects_.empty()) return absl::nullopt;
  return Suspect{suspects_.front(), failure_, failed_at_, {suspects_.begin() + 1, suspects_.end()}};
}

std::shared_ptr<Transfer> TransferTable::WaitForDeadline() {
  MutexLock lock(&mutex_);
  while (failure_.ok()) {
    std::shared_ptr<Transfer> first;
    for (const auto& [key, transfer] : transfers_) {
      if (!first || transfer->deadline < first->deadline) first = transfer;
    }
    watched_ = first ? first->deadline : absl::InfiniteFuture();
    if (watched_ <= SteadyNow()) return first;
    keeper_wakes_.WaitWithDeadline(&mutex_, watched_);
  }
  return nullptr;
}

// When the keeper sees the failure, the thread that failed may not have called `stop` yet.
void TransferTable::WaitForStop() {
  MutexLock lock(&mutex_);
  while (!stopped_) keeper_wakes_.Wait(&mutex_);
}

void TransferTable::Keep() {
  while (std::shared_ptr<Transfer> late = WaitForDeadline()) {
    Lateness lateness = hooks_.explain(*late);
    FailAt(lateness.failure, std::move(lateness.workers));
  }
  WaitForStop();
  hooks_.drain();
  EndAll();
}

// Ends transfers that are added until the table is closed, too.
void TransferTable::EndAll() {
  while (true) {
    std::map<BucketKey, std::shared_ptr<Transfer>> ended;
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      while (transfers_.empty() && !closing_) keeper_wakes_.Wait(&mutex_);
      if (transfers_.empty()) return;
      ended.swap(transfers_);
      status = failure_;
    }
    for (const auto& [key, transfer] : ended) {
      transfer->done(transfer->lender.Reclaim(status));
    }
  }
}

}  // namespace gradwire
