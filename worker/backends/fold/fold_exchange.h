#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_EXCHANGE_H_

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/backends/exchange.h"
#include "worker/backends/fold/lane.h"
#include "worker/backends/transfer_table.h"

namespace gradwire {

// The exchange of a FoldBackend in one view.
//
//                     ┌─ lane ── Gather ──► aggregator 0 ─┐
//   trainer ── pieces ┼─ lane ── Gather ──► aggregator 1  ├── means ──► lanes' receivers
//                     └─ local lane ──────► this worker's ┘              └─ done(bucket)
//
// The table's keeper thread watches deadlines. After a failure it joins the lanes and ends the
// transfers that are under way.
class FoldExchange : public Exchange, private LaneHost {
 public:
  // `service` serves this worker's aggregator; null if it has none. `service`, `compressors` and
  // `traffic` must outlive the exchange.
  FoldExchange(const BackendOptions& options, const View& view, std::vector<Endpoint> endpoints,
               AggregationService* service, Compressors* compressors, Traffic* traffic);
  ~FoldExchange() override;

  // Connects all lanes and starts them. Call it once, first.
  absl::Status Start(const Backend::Ended& ended);

  void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) override;
  void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
              Done done) override;
  void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) override;
  void SetRate(double rate) override { rate_ = rate; }
  void Cancel(absl::Status reason) override { OnFailure(reason, absl::nullopt); }
  std::vector<KeptValues> Kept(LayoutId layout) override;
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Suspect> suspect() const override { return table_.suspect(); }

 private:
  void MakeLanes(const std::vector<Endpoint>& endpoints);
  void MakeOwnAggregator(const Endpoint& endpoint);
  // Calls `work` with every lane.
  void ForEachLane(const std::function<void(Lane*)>& work) const;

  absl::StatusOr<std::shared_ptr<FoldTransfer>> FindOrKeep(const BucketKey& key,
                                                           std::function<void()> later) override;
  const std::vector<BucketSpec>* WaitForLayout(LayoutId layout) override {
    return table_.WaitForLayout(layout);
  }
  void OnMean(const std::shared_ptr<FoldTransfer>& transfer) override;
  void OnSent(uint64_t bytes) override { traffic_->sent += bytes; }
  void OnReceived(uint64_t bytes) override { traffic_->received += bytes; }
  void OnClocks(const ChunkClocks& clocks) override;
  void OnCompressed(const CompressionTotals& more) override;
  void OnOverflow(Step step, Rank rank) override { overflow_.Note(step, rank); }
  void OnFailure(const absl::Status& status, absl::optional<Incarnation> suspect) override {
    table_.Fail(status, suspect);
  }

  Lateness Explain(const Transfer& late) const;

  const BackendOptions options_;
  const LaneContext context_;
  AggregationService* const service_;
  Traffic* const traffic_;
  const uint64_t sent_before_;
  const uint64_t received_before_;
  OverflowMonitor overflow_;
  int owners_ = 0;  // number of shares; constant after construction
  // By endpoint, which may have several connections. Constant after construction.
  std::vector<std::vector<std::unique_ptr<Lane>>> lanes_;
  std::vector<absl::optional<Incarnation>> summing_;  // the worker of each endpoint; constant, too
  std::vector<size_t> endpoint_of_share_;
  std::shared_ptr<Aggregator> aggregator_;  // of this worker's shares; null if it has none
  std::map<LayoutId, std::vector<BucketSpec>> specs_;  // only for the thread that contributes
  double rate_ = 0;                                    // only for the thread that contributes
  mutable Mutex mutex_;
  ChunkClocks clocks_ ABSL_GUARDED_BY(mutex_);
  CompressionTotals compressed_ ABSL_GUARDED_BY(mutex_);
  // Data for buckets that are not expected yet: bytes of a root that is ahead.
  std::map<BucketKey, std::vector<std::function<void()>>> early_ ABSL_GUARDED_BY(mutex_);
  TransferTable table_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_FOLD_EXCHANGE_H_
