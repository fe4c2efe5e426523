#ifndef GRADWIRE_WORKER_BACKENDS_COORDINATOR_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_COORDINATOR_BACKEND_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/chunk.h"
#include "common/mutex.h"
#include "common/slice_lender.h"
#include "worker/backends/backend.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// Gather and Scatter at the coordinator: the exact fold. Two calls per step,
// open at the same time: chunks go up in the order in which buckets are handed
// in, and means come down as the coordinator completes them.
//
//   trainer ── transfers ──► gather thread ── Gather ──► coordinator
//              of a step ──► scatter thread ◄─ Scatter ──┘
//                            └── done(bucket)
class CoordinatorBackend : public Backend {
 public:
  explicit CoordinatorBackend(const std::string& coordinator);
  ~CoordinatorBackend() override;

  absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) override;
  void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                      absl::Time deadline, Done done) override;
  void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                      Done done) override;
  void Cancel(absl::Status reason) override;
  absl::Status Finish(absl::Time deadline) override;
  TransferTotals totals() const override;

 private:
  struct Entry {
    explicit Entry(Transfer transfer) : transfer(std::move(transfer)) {}
    Transfer transfer;
    SliceLender lender;     // of transfer.terms
    uint64_t received = 0;  // bytes of the result; scatter thread only
    bool finished = false;  // `done` was called; scatter thread only
  };
  // One step under way.
  struct Exchange {
    Step step;
    absl::Time deadline;
    std::vector<std::unique_ptr<Entry>> entries;  // in the order handed in
    std::vector<Entry*> by_bucket;
    grpc::ClientContext gather_context;
    grpc::ClientContext scatter_context;
    absl::Status status;  // the first error
    bool gather_over = false;
  };

  void Submit(Transfer transfer);
  // The exchange after `last`, or null when closing.
  std::shared_ptr<Exchange> WaitForExchange(const Exchange* last);
  // Entry number `index`, once handed in; null if the exchange failed.
  Entry* WaitForEntry(Exchange* exchange, size_t index);
  // The entry of `bucket`, once handed in; null if the exchange failed.
  Entry* WaitForBucket(Exchange* exchange, Bucket bucket);
  void GatherLoop();
  void ScatterLoop();
  absl::Status Gather(Exchange* exchange);
  bool SendEntry(Entry* entry, grpc::ClientWriter<grpc::ByteBuffer>* writer);
  absl::Status Scatter(Exchange* exchange);
  absl::Status Take(Exchange* exchange, grpc::ByteBuffer* buffer);
  void Fail(Exchange* exchange, absl::Status status);
  // Entry number `index`, waiting for it as long as it may be handed in; null at the end.
  Entry* NextToComplete(Exchange* exchange, size_t index);
  void CompleteRest(Exchange* exchange);

  const std::string coordinator_;
  const std::shared_ptr<grpc::Channel> channel_;
  View view_;                        // constant after OnView
  std::vector<BucketSpec> buckets_;  // constant after OnView
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};

  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Exchange> exchange_ ABSL_GUARDED_BY(mutex_);  // the latest
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread gather_thread_;
  std::thread scatter_thread_;
};

std::unique_ptr<Backend> MakeCoordinatorBackend(const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_COORDINATOR_BACKEND_H_
