#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
#include "common/rpc/call_guard.h"
#include "gradwire/v1/aggregation.grpc.pb.h"

namespace gradwire {

// Who hears what AggregationService moves; called on its threads, often.
struct AggregationObserver {
  std::function<void(uint64_t bytes)> on_received;
  std::function<void(uint64_t bytes)> on_sent;
  std::function<void(absl::StatusCode)> on_error;  // how a call ended, if not OK
};

// gRPC's side of the Aggregator: service gradwire.v1.Aggregation, with messages
// taken and given as byte buffers, so that payloads are never copied. Only
// translates; judging and summing is the aggregator's. Thread-safe. A Gather of one who is no
// member (see IsMember) is ended if no chunk of it is accepted within a second.
class AggregationService : public grpc::Service {
 public:
  explicit AggregationService(AggregationObserver observer);

  // Serves the aggregator of a view from now on; that of an earlier view was aborted.
  // Calls that came before wait for it for some seconds.
  void Serve(std::shared_ptr<Aggregator> aggregator);

  // Aborts the aggregator that is served, and ends calls that wait for one.
  void Abort(const absl::Status& reason);

  // Waits until no Gather or Scatter of a member is open; false if `deadline` passed first. Who
  // does not say which member it is counts from its first chunk that is accepted.
  bool WaitUntilIdle(absl::Time deadline);

 private:
  using MeanWriter = grpc::ServerWriter<grpc::ByteBuffer>;
  class CountedCall;  // counts in `open_calls_` from Begin on

  grpc::Status Gather(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                      v1::GatherReply* reply);
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest* request,
                       MeanWriter* writer);
  grpc::Status Missing(const grpc::ServerContext& context, const v1::MissingRequest& request,
                       v1::MissingReply* reply);
  // Of this view, or of a later one. Cancelled if the caller goes away, or the server ends, before
  // there is one.
  absl::StatusOr<std::shared_ptr<Aggregator>> WaitForAggregator(const grpc::ServerContext& context,
                                                                const RunId& run_id,
                                                                Generation generation);
  bool IsToCome(const RunId& run_id, Generation generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, for who reads in the view that a request names.
  template <typename Request>
  absl::StatusOr<std::shared_ptr<Aggregator>> AggregatorFor(const grpc::ServerContext& context,
                                                            const Request& request);
  absl::Status TakeAll(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                       v1::GatherReply* reply);
  absl::Status SendAll(grpc::ServerContext* context, const v1::ScatterRequest& request,
                       MeanWriter* writer);
  grpc::Status Report(const absl::Status& status);
  void CountCall(int change);

  const AggregationObserver observer_;
  CallGuard guard_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Aggregator> aggregator_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  int open_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_
