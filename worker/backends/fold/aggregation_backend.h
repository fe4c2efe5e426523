#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_AGGREGATION_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_AGGREGATION_BACKEND_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
#include "worker/backends/backend.h"
#include "worker/backends/fold/piece.h"
#include "worker/backends/fold/lane.h"
#include "worker/backends/overflow_monitor.h"

namespace gradwire {

// The exact fold at one or several aggregators, each of which sums its share of
// every bucket: at the coordinator, at all workers, or at separate processes.
//
//                     ┌─ lane ── Gather ──► aggregator 0 ─┐
//   trainer ── pieces ┼─ lane ── Gather ──► aggregator 1  ├── means ──► lanes' receivers
//                     └─ local lane ──────► this worker's ┘              └─ done(bucket)
//
//   keeper thread: deadlines; after a failure, ends what is still under way
class AggregationBackend : public Backend, private LaneHost {
 public:
  // All aggregators of a view, in the order of their shares.
  using EndpointsOf = std::function<std::vector<Endpoint>(const View& view)>;

  // `serves`: this worker may have a share.
  AggregationBackend(const BackendOptions& options, EndpointsOf endpoints_of, bool serves);
  ~AggregationBackend() override;

  absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) override;
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override;
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                      Done done) override;
  void Cancel(absl::Status reason) override;
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;
  absl::optional<Rank> suspect() const override;
  grpc::Service* service() override { return service_.get(); }

 private:
  using Key = std::pair<uint64_t, int>;  // step, bucket

  absl::Status MakeLanes();
  absl::Status StartLanes();
  void Submit(Transfer transfer);
  void PushPieces(const std::shared_ptr<Exchange>& exchange);
  absl::Status failure() const;

  absl::StatusOr<std::shared_ptr<Exchange>> WaitFor(Step step, Bucket bucket) override;
  void OnMean(const Piece& piece) override;
  void OnSent(uint64_t bytes) override { bytes_sent_ += bytes; }
  void OnReceived(uint64_t bytes) override { bytes_received_ += bytes; }
  void OnOverflow(Step step) override;
  void OnFailure(absl::Status status, absl::optional<Rank> suspect) override;

  void KeeperLoop();
  // The exchange whose deadline passed, null if the back end failed or closes.
  std::shared_ptr<Exchange> WaitForDeadline();
  absl::Status LateStatus(const Exchange& exchange);
  void EndAll();

  const BackendOptions options_;
  const EndpointsOf endpoints_of_;
  Aggregator aggregator_;                        // of this worker's share
  std::unique_ptr<AggregationService> service_;  // null if this worker serves none
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};
  OverflowMonitor overflow_;

  // Constant after OnView.
  LaneContext context_;
  int owners_ = 0;
  std::vector<std::vector<std::unique_ptr<Lane>>> lanes_;  // by owner; several connections

  mutable Mutex mutex_;
  CondVar changed_;
  std::map<Key, std::shared_ptr<Exchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
  Step open_step_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Rank> suspect_ ABSL_GUARDED_BY(mutex_);  // behind failure_
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_AGGREGATION_BACKEND_H_
