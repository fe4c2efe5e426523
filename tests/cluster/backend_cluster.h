#ifndef GRADWIRE_TESTS_CLUSTER_BACKEND_CLUSTER_H_
#define GRADWIRE_TESTS_CLUSTER_BACKEND_CLUSTER_H_

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/aggregation/aggregation_service.h"
#include "common/aggregation/aggregator.h"
#include "common/wire/layout.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "worker/backends/backend.h"

namespace gradwire {

// W back ends in one process, with real servers on loopback between them.
// `buckets` is the layout in float32; `wire` is the type on the wire.
class BackendCluster {
 public:
  struct Settings {
    uint64_t chunk_bytes = 1 << 20;
    int aggregators = 0;  // separate ones
    int connections = 1;
    v1::DType wire = v1::DTYPE_FLOAT32;
  };
  BackendCluster(const std::string& backend, int world_size, std::vector<BucketSpec> buckets,
                 const Settings& settings);
  BackendCluster(const std::string& backend, int world_size, std::vector<BucketSpec> buckets)
      : BackendCluster(backend, world_size, std::move(buckets), Settings()) {}
  ~BackendCluster();

  Backend& backend(int rank) { return *ranks_[rank].backend; }
  Aggregator& aggregator() { return aggregator_; }
  const View& view() const { return view_; }
  const std::string& coordinator_address() const { return coordinator_address_; }

  // All buckets of one step on all ranks. `data[rank][bucket]` goes in (as bytes)
  // and is replaced by what came out. `before` runs on rank's thread before it
  // hands in its buckets, `between` after each bucket. Returns each rank's first error.
  std::vector<absl::Status> RunStep(
      uint64_t step, std::vector<std::vector<std::string>>* data,
      absl::Duration timeout = absl::Seconds(60),
      const std::function<void(int rank)>& before = nullptr,
      const std::function<void(int rank, int bucket)>& between = nullptr);

  // Finish on all ranks at once.
  std::vector<absl::Status> Finish();

 private:
  struct RankState {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<grpc::Server> server;
  };
  absl::Status RunStepOfRank(int rank, uint64_t step, std::vector<std::string>* data,
                             absl::Duration timeout,
                             const std::function<void(int rank, int bucket)>& between);

  // A separate aggregator.
  struct AggregatorState {
    Aggregator aggregator;
    std::unique_ptr<AggregationService> service;
    std::unique_ptr<grpc::Server> server;
  };
  void StartAggregators(int count);

  const std::vector<BucketSpec> buckets_;
  const RunId run_id_;
  Aggregator aggregator_;
  AggregationService aggregation_service_;
  RendezvousStore rendezvous_;
  RendezvousService rendezvous_service_;
  std::unique_ptr<grpc::Server> coordinator_;
  std::string coordinator_address_;
  View view_;
  std::vector<std::unique_ptr<AggregatorState>> aggregators_;
  std::vector<RankState> ranks_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CLUSTER_BACKEND_CLUSTER_H_
