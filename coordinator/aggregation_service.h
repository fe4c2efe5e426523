#ifndef GRADWIRE_COORDINATOR_AGGREGATION_SERVICE_H_
#define GRADWIRE_COORDINATOR_AGGREGATION_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "common/metrics.h"
#include "coordinator/aggregator.h"
#include "gradwire/v1/aggregation.grpc.pb.h"

namespace gradwire {

// Serves v1.Aggregation (see aggregation.proto) from an Aggregator. Chunks are
// taken from and given to gRPC as byte buffers, so that payloads are not copied;
// on the wire they are ordinary messages. Each call has a thread of gRPC's.
class AggregationService : public grpc::Service {
 public:
  // `aggregator` and `metrics` outlive the service. Counts payload bytes, and calls
  // that ended with an error.
  AggregationService(Aggregator* aggregator, CoordinatorMetrics* metrics);

 private:
  grpc::Status Gather(grpc::ServerContext* context, grpc::ServerReader<grpc::ByteBuffer>* reader,
                      v1::GatherReply* reply);
  grpc::Status Scatter(grpc::ServerContext* context, const v1::ScatterRequest* request,
                       grpc::ServerWriter<grpc::ByteBuffer>* writer);
  absl::Status TakeAll(grpc::ServerReader<grpc::ByteBuffer>* reader, v1::GatherReply* reply);
  absl::Status SendAll(Step step, absl::Time deadline,
                       grpc::ServerWriter<grpc::ByteBuffer>* writer);
  grpc::Status Report(const absl::Status& status);

  Aggregator* const aggregator_;
  CoordinatorMetrics* const metrics_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_AGGREGATION_SERVICE_H_
