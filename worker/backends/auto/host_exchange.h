#ifndef GRADWIRE_WORKER_BACKENDS_AUTO_HOST_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_AUTO_HOST_EXCHANGE_H_

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "worker/backends/exchange.h"
#include "worker/backends/memory/memory_exchange.h"

namespace gradwire {

// The exchange of back end `auto` between workers that share memory: layouts whose memory is within
// the limits of all workers go through it, others through a back end for the network, which it
// connects when the first of them is added. All workers decide alike (see MemoryBudget).
class HostExchange : public Exchange {
 public:
  // As Backend::Connect; sets the worker that cannot be reached.
  using ConnectNetwork =
      std::function<absl::StatusOr<std::unique_ptr<Exchange>>(absl::optional<Incarnation>*)>;

  // `memory` has started. `connect` may be called until this object is destroyed; it is a back end
  // called `network`.
  HostExchange(std::unique_ptr<MemoryExchange> memory, std::string network, ConnectNetwork connect);

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  Memory TermsMemory(LayoutId layout, Bucket bucket, Rank rank) override;
  Memory ResultMemory(LayoutId layout, Bucket bucket) override;
  void Cancel(absl::Status reason) override;
  std::vector<KeptValues> Kept(LayoutId layout) override {
    return exchange_of_.at(layout)->Kept(layout);
  }
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override;

 private:
  // Returns null if the network cannot be connected, after the failure has ended all transfers.
  Exchange* Network(LayoutId layout, const std::vector<BucketSpec>& buckets);
  Exchange* NetworkOrNull() const;

  const std::string name_;
  const ConnectNetwork connect_;
  const std::unique_ptr<MemoryExchange> memory_;
  std::map<LayoutId, Exchange*> exchange_of_;  // of the thread that exchanges
  mutable Mutex mutex_;
  std::unique_ptr<Exchange> network_ ABSL_GUARDED_BY(mutex_);  // set once; null: not needed
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);             // not OK: the reason
  absl::optional<Suspect> unreachable_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_AUTO_HOST_EXCHANGE_H_
