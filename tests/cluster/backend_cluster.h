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
#include "common/base/memory_limits.h"
#include "common/wire/layout.h"
#include "coordinator/rendezvous/rendezvous_service.h"
#include "worker/backends/backend.h"

namespace gradwire {

// The ranks that each worker of a test carries.
using Deal = std::vector<std::vector<int>>;
// A worker for each rank.
Deal OneEach(int world_size);

// Returns the back ends whose ranks can be in one process. tests/mpi has the others.
std::vector<std::string> BackendsOfOneProcess();

// Workers with a back end each in one process, with real servers on loopback between them,
// in one view. `buckets` is its first layout in float32; `wire` is the type on
// the wire.
class BackendCluster {
 public:
  struct Settings {
    uint64_t chunk_bytes = 1 << 20;
    int aggregators = 0;  // separate ones
    int connections = 1;
    v1::DType wire = v1::DTYPE_FLOAT32;
    int groups = 1;
    bool gathers = false;
    Compression compression = {};  // if it is on, `wire` is its dtype
    MemoryLimits limits = {};      // of each worker's shared memory
    // Number of each worker's host, with an address of its own; empty: all are on one.
    std::vector<int> hosts = {};
    // Where others reach a server of the cluster; empty: where it is. With it connecting may fail,
    // and an error of one ends the step for all.
    std::function<std::string(const std::string& address)> through = nullptr;
  };
  BackendCluster(const std::string& backend, const Deal& deal, std::vector<BucketSpec> buckets,
                 const Settings& settings);
  BackendCluster(const std::string& backend, int world_size, std::vector<BucketSpec> buckets,
                 const Settings& settings)
      : BackendCluster(backend, OneEach(world_size), std::move(buckets), settings) {}
  BackendCluster(const std::string& backend, int world_size, std::vector<BucketSpec> buckets)
      : BackendCluster(backend, world_size, std::move(buckets), Settings()) {}
  ~BackendCluster();

  Exchange& exchange(int worker) { return *workers_[worker].exchange; }
  Aggregator& aggregator() { return *aggregator_; }
  // The view as a worker has it.
  View ViewOf(int worker) const;
  const std::string& coordinator_address() const { return coordinator_address_; }

  // Whether all have connected; if not, nothing else may be asked.
  const absl::Status& connected() const { return connected_; }

  // One more layout in the view, of float32 on the wire.
  void AddLayout(LayoutId layout, const std::vector<BucketSpec>& buckets);

  // All buckets of one step on all ranks. `data[rank][bucket]` goes in (as bytes)
  // and is replaced by what came out. `before` runs on a worker's thread before its first rank
  // contributes its buckets, `between` after each bucket. Returns each worker's first error.
  std::vector<absl::Status> RunStep(
      uint64_t step, std::vector<std::vector<std::string>>* data,
      absl::Duration timeout = absl::Seconds(60),
      const std::function<void(int rank)>& before = nullptr,
      const std::function<void(int rank, int bucket)>& between = nullptr);

  // Finish on all workers at once.
  std::vector<absl::Status> Finish();

 private:
  struct WorkerState {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<grpc::Server> server;
    std::unique_ptr<Exchange> exchange;  // of the back end
  };
  // A separate aggregator.
  struct AggregatorState {
    std::shared_ptr<Aggregator> aggregator;
    std::unique_ptr<AggregationService> service;
    std::unique_ptr<grpc::Server> server;
  };

  void StartWorkers(const std::string& backend, const Deal& deal, const BackendOptions& options,
                    const Settings& settings);
  void StartAggregators(int count);
  void ServeAggregators();
  absl::Status ConnectWorkers();
  absl::Status RunStepOfWorker(int worker, uint64_t step,
                               std::vector<std::vector<std::string>>* data, absl::Duration timeout,
                               const std::function<void(int rank, int bucket)>& between);

  void Cancel(const absl::Status& status);
  std::string Published(const std::string& address) const;

  const std::vector<BucketSpec> buckets_;
  const v1::DType wire_;
  const std::function<std::string(const std::string&)> through_;  // may be empty
  View view_;
  std::shared_ptr<Aggregator> aggregator_;  // the coordinator's
  AggregationService aggregation_service_;
  RendezvousStore rendezvous_;
  RendezvousService rendezvous_service_;
  std::unique_ptr<grpc::Server> coordinator_;
  std::string coordinator_address_;
  std::vector<std::unique_ptr<AggregatorState>> aggregators_;
  std::vector<WorkerState> workers_;
  absl::Status connected_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_CLUSTER_BACKEND_CLUSTER_H_
