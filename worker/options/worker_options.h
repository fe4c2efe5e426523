#ifndef GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_
#define GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace gradwire {

// Everything a worker can be told. Names, units and meaning: `gradwire-worker --help`.
// Defaults are here and nowhere else.
struct WorkerOptions {
  std::string coordinator = "127.0.0.1:29400";
  std::vector<Rank> ranks;  // ascending; none: the coordinator deals
  int world_size = 0;       // 0: what the coordinator says
  // Rank 0 is the coordinator too, if nobody listens at its address.
  bool host_coordinator = false;
  std::string coordinator_metrics;  // of that one; empty: the usual place, or another port
  std::string sync = "ddp";
  std::string backend;        // "none" with a sync that averages nothing
  double bucket_cap_mb = -1;  // MiB; 0: a bucket per parameter; below: as suits the sync
  bool barrier = false;       // all parameters are updated before the next forward pass begins
  std::string wire = "fp32";
  int connections = 1;  // to each aggregator (back ends coordinator and sharded)
  bool broadcast_buffers = true;
  std::string model = "vgg11";
  int64_t image_size = 0;        // pixels a side; 0: the model's own shape
  int64_t hidden = 0;            // width of a new classifier; 0: the model's own
  bool freeze_features = false;  // the classifier alone is trained
  std::string weights;           // file to start from; empty: drawn
  std::string save_weights;      // file
  std::string dataset = "fashion-mnist";
  std::string data_dir;     // empty: the data set's usual place
  int64_t batch_size = 64;  // per rank, of one forward pass
  int64_t accumulate = 1;   // forward and backward passes per iteration
  int devices = 1;          // of this process, with sync data-parallel
  std::string inference;    // native or vanilla, in place of training; empty: trains
  int64_t iterations = 0;   // 0: as --epochs says
  int64_t epochs = 1;
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  uint64_t seed = 744;        // weights and augmentation
  uint64_t sampler_seed = 0;  // order of samples, as torch's DistributedSampler
  bool augment = true;
  bool drop_last = false;    // of the sampler's tail
  int threads = 0;           // compute threads of a device; 0: what all hosts can give
  int local_world_size = 1;  // workers on this host
  bool evaluate = false;
  std::string log_jsonl;
  std::string trace;
  std::string summary;
  std::string metrics;               // empty: not served
  std::string listen = "0.0.0.0:0";  // Neighbor service
  std::string advertise;  // host that neighbours use; empty: of the connection to the coordinator
  int64_t print_every = 20;
  double connect_timeout_seconds = 30;  // until the coordinator answers
  double step_timeout_seconds = 300;    // until all gradients of a step are in
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_
