#ifndef GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_
#define GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/aggregation/aggregator.h"
#include "common/base/mutex.h"
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
// translates; judging and summing is the aggregator's.
class AggregationService : public grpc::Service {
 public:
  // `aggregator` outlives the service.
  AggregationService(Aggregator* aggregator, AggregationObserver observer);

  // Waits until no Gather or Scatter is open; false if `deadline` passed first.
  bool WaitUntilIdle(absl::Time deadline);

 private:
  // Where a reader of means stands.
  struct Reader {
    Step step;
    uint64_t steps_left = 0;  // 0: no end
    uint32_t lane = 0;
    uint32_t lanes = 1;
    absl::Time deadline;
    bool continues = false;  // not the first step of its stream
  };
  using MeanWriter = grpc::ServerWriter<grpc::ByteBuffer>;

  grpc::Status Gather(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                      v1::GatherReply* reply);
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest* request,
                       MeanWriter* writer);
  grpc::Status Missing(const v1::MissingRequest* request, v1::MissingReply* reply);
  absl::Status WaitForRun(grpc::ServerContext* context);
  absl::Status TakeAll(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                       v1::GatherReply* reply);
  absl::Status SendAll(grpc::ServerContext* context, const v1::ScatterRequest& request,
                       MeanWriter* writer);
  // The step's means, waiting for them; Cancelled when the caller went away.
  absl::Status SendStep(grpc::ServerContext* context, const Reader& reader, MeanWriter* writer);
  absl::StatusOr<std::shared_ptr<const MeanChunk>> WaitForMean(grpc::ServerContext* context,
                                                               const Reader& reader, size_t index);
  grpc::Status Report(const absl::Status& status);
  void CountCall(int change);

  Aggregator* const aggregator_;
  const AggregationObserver observer_;
  Mutex mutex_;
  CondVar changed_;
  int open_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_AGGREGATION_AGGREGATION_SERVICE_H_
