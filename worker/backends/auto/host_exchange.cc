#include "worker/backends/auto/host_exchange.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "common/base/clock.h"

namespace gradwire {

HostExchange::HostExchange(std::unique_ptr<MemoryExchange> memory, std::string network,
                           ConnectNetwork connect)
    : name_(std::move(network)), connect_(std::move(connect)), memory_(std::move(memory)) {}

Exchange* HostExchange::NetworkOrNull() const {
  MutexLock lock(&mutex_);
  return network_.get();
}

void HostExchange::AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) {
  const absl::Status fits = memory_->Reserve(buckets);
  if (fits.ok()) {
    exchange_of_[layout] = memory_.get();
    return memory_->AddReserved(layout, std::move(buckets));
  }
  spdlog::warn("no shared memory for layout {}: {}; back end {} exchanges it", layout.value(),
               std::string(fits.message()), name_);
  Exchange* const network = Network(layout, buckets);
  if (network != nullptr) network->AddLayout(layout, std::move(buckets));
}

Exchange* HostExchange::Network(LayoutId layout, const std::vector<BucketSpec>& buckets) {
  if (Exchange* const known = NetworkOrNull(); known != nullptr) {
    return exchange_of_[layout] = known;
  }
  absl::optional<Incarnation> suspect;
  absl::StatusOr<std::unique_ptr<Exchange>> connected = connect_(&suspect);
  if (!connected.ok()) {
    {
      MutexLock lock(&mutex_);
      if (suspect.has_value()) unreachable_ = Suspect{*suspect, connected.status(), SteadyNow()};
    }
    exchange_of_[layout] = memory_.get();
    memory_->AddFailed(layout, buckets, connected.status());
    return nullptr;
  }
  MutexLock lock(&mutex_);
  network_ = *std::move(connected);
  if (!cancelled_.ok()) network_->Cancel(cancelled_);
  return exchange_of_[layout] = network_.get();
}

void HostExchange::Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                          Done done) {
  exchange_of_.at(key.layout)->Expect(key, result, deadline, std::move(done));
}

void HostExchange::Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) {
  exchange_of_.at(key.layout)->Contribute(key, rank, terms);
}

Exchange::Memory HostExchange::TermsMemory(LayoutId layout, Bucket bucket, Rank rank) {
  return exchange_of_.at(layout)->TermsMemory(layout, bucket, rank);
}

Exchange::Memory HostExchange::ResultMemory(LayoutId layout, Bucket bucket) {
  return exchange_of_.at(layout)->ResultMemory(layout, bucket);
}

void HostExchange::Cancel(absl::Status reason) {
  memory_->Cancel(reason);
  MutexLock lock(&mutex_);
  if (cancelled_.ok()) cancelled_ = reason;
  if (network_ != nullptr) network_->Cancel(std::move(reason));
}

absl::Status HostExchange::Finish(absl::Time deadline) {
  absl::Status finished = memory_->Finish(deadline);
  Exchange* const network = NetworkOrNull();
  if (network != nullptr) finished.Update(network->Finish(deadline));
  return finished;
}

TransferTotals HostExchange::totals() const {
  TransferTotals totals = memory_->totals();
  const Exchange* const network = NetworkOrNull();
  if (network == nullptr) return totals;
  const CompressionTotals in_memory = totals.compressed;
  const uint64_t overflows = totals.overflow_steps;
  totals = network->totals();
  totals.compressed += in_memory;
  totals.overflow_steps += overflows;
  return totals;
}

absl::optional<Suspect> HostExchange::suspect() const {
  {
    MutexLock lock(&mutex_);
    if (unreachable_.has_value()) return unreachable_;
  }
  const Exchange* const network = NetworkOrNull();
  absl::optional<Suspect> found = memory_->suspect();
  if (!found.has_value() && network != nullptr) found = network->suspect();
  return found;
}

}  // namespace gradwire
