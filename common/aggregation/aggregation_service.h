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

// Observes the data that AggregationService moves; called often, on its threads.
struct AggregationObserver {
  std::function<void(uint64_t bytes)> on_received;
  std::function<void(uint64_t bytes)> on_sent;
  std::function<void(absl::StatusCode)> on_error;  // status of a call, if not OK
};

// Payloads of one call that go through memory which the caller and this process share, so that its
// messages have none. Put and Find: one thread each; a chunk's owner may be released on any.
class CallMemory {
 public:
  virtual ~CallMemory() = default;
  // Copies `payload`, for worker `to`, into memory, and says in `header` where it is. False: it must
  // go through the call.
  virtual bool Put(const View& view, Incarnation to, absl::Span<const uint8_t> payload,
                   ChunkHeader* header) = 0;
  // Lets a chunk that names a slot have its payload, which stays until its owner is released.
  // `from`: the worker that it is of; null if there is none. InvalidArgument: this slot is not
  // allowed; Unavailable: the process of `from` has ended; Aborted: it has left the view;
  // FailedPrecondition: the memory cannot be mapped.
  virtual absl::Status Find(const View& view, const Member* from, Chunk* chunk) = 0;
};

// Makes the memory of a call; called on its thread.
using MakeCallMemory = std::function<std::unique_ptr<CallMemory>()>;

// gRPC's side of the Aggregator: service gradwire.v1.Aggregation, with messages as byte buffers, so
// that payloads are never copied. The Aggregator checks and sums. Thread-safe. A Gather of a caller
// that is not a member (see IsMember) is ended if none of its chunks is accepted within a second.
class AggregationService : public grpc::Service {
 public:
  // `make_memory` may be empty: all payloads then go through the calls.
  explicit AggregationService(AggregationObserver observer, MakeCallMemory make_memory = nullptr);

  // Serves the aggregator of a view from now on; the previous one was aborted. Earlier calls wait
  // some seconds for it.
  void Serve(std::shared_ptr<Aggregator> aggregator);

  // Aborts the current aggregator, and ends calls that wait for one.
  void Abort(const absl::Status& reason);

  // Waits until no Gather or Scatter of a member is open; false if `deadline` passes first. A
  // caller that does not identify itself counts from its first accepted chunk.
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
  // Waits for the aggregator of this view or a later one. Cancelled if the caller is gone, or the
  // server ends, before one exists.
  absl::StatusOr<std::shared_ptr<Aggregator>> WaitForAggregator(const grpc::ServerContext& context,
                                                                const RunId& run_id,
                                                                Generation generation);
  bool IsToCome(const RunId& run_id, Generation generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, for a reader in the view that the request names.
  template <typename Request>
  absl::StatusOr<std::shared_ptr<Aggregator>> AggregatorFor(const grpc::ServerContext& context,
                                                            const Request& request);
  // Gives one chunk of a Gather to the aggregator.
  absl::StatusOr<Verdict> Take(Aggregator* aggregator, CallMemory* memory, Chunk chunk);
  absl::Status TakeAll(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                       v1::GatherReply* reply);
  absl::Status SendAll(grpc::ServerContext* context, const v1::ScatterRequest& request,
                       MeanWriter* writer);
  grpc::Status Report(const absl::Status& status);
  void CountCall(int change);

  const AggregationObserver observer_;
  const MakeCallMemory make_memory_;
  CallGuard guard_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Aggregator> aggregator_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  int open_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_
