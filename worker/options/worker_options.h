#ifndef GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_
#define GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/options/security_options.h"
#include "worker/options/model_flags.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

// All options of a worker, with their defaults. `gradwire-worker --help` gives names, units and
// meaning.
struct WorkerOptions : ModelFlags, SyncSettings {
  std::string coordinator = "127.0.0.1:29400";
  std::vector<Rank> ranks;  // ascending; empty: the coordinator assigns one
  int world_size = 0;       // 0: the coordinator's
  // Rank 0 also runs the coordinator if no program listens at its address.
  bool host_coordinator = false;
  std::string coordinator_metrics;  // of that coordinator; empty: the usual address, or a free port
  std::string sync = "ddp";         // with its interval, if it has one (see NameOfSync)
  int64_t staleness = 0;            // steps, with parameter-server; below 0: no bound
  std::string backend;              // "none" with a sync that averages nothing
  std::string shared_memory = "auto";  // or off
  double bucket_cap_mb = -1;           // MiB; 0: a bucket for each parameter; below 0: by sync
  bool barrier = false;  // all parameters are updated before the next forward pass begins
  std::string wire = "fp32";
  std::string compress = "none";  // or a row of codecs.inc
  int64_t compress_warmup = 0;    // steps until top-k reaches its density, or powersgd begins
  int connections = 1;            // to each aggregator (back ends coordinator and sharded)
  int groups = 1;                 // buckets take turns on them
  bool broadcast_buffers = true;
  std::string weights;       // file of initial weights; empty: drawn by the seed
  std::string save_weights;  // file
  std::string dataset = "fashion-mnist";
  std::string data_dir;                            // empty: the data set's usual place
  int64_t batch_size = 64;                         // per rank and forward pass
  int64_t accumulate = 1;                          // forward and backward passes per iteration
  int devices = 1;                                 // of this process, with sync data-parallel
  std::string replication = "native";              // or vanilla, in training with several devices
  absl::optional<ComputeSeconds> compute_seconds;  // set: emulates the computation
  double late_seconds = 0;                         // that this rank sleeps longer in forward
  std::string inference;   // native or vanilla, instead of training; empty: trains
  int64_t iterations = 0;  // 0: set by `epochs`
  int64_t epochs = 1;
  std::string loss = "cross-entropy";
  std::string optimizer = "sgd";
  double lr = 0;  // 0: by optimizer
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = -1;  // below 0: by optimizer
  double clip_norm = 0;      // largest norm of the averaged gradient; 0: no limit
  std::string lr_schedule = "constant";
  int64_t lr_step_epochs = 30;  // with schedule step
  double lr_gamma = 0.1;        // with schedule step
  int64_t warmup_epochs = 0;
  bool scale_lr = false;  // lr is meant for base_batch samples per iteration, on all ranks
  int64_t base_batch = 256;
  uint64_t seed = 744;        // weights and augmentation
  uint64_t sampler_seed = 0;  // order of samples, as in torch's DistributedSampler
  bool augment = true;
  bool drop_last = false;  // leaves out the sampler's tail
  bool set_epoch = true;   // each epoch has its own order
  int loaders = 1;         // threads that make batches
  int threads = 0;  // compute threads of each device; 0: cores per rank, smallest of all workers
  std::string instructions;    // for sums and checksums; empty: the best that the processor has
  int local_world_size = 1;    // workers on this host
  bool evaluate = false;       // at the end
  int64_t evaluate_every = 0;  // epochs; 0: only at the end
  std::string log_jsonl;
  std::string trace;
  std::string summary;
  std::string metrics;    // empty: not served
  std::string listen;     // Neighbor service; empty: the interface towards the coordinator
  std::string advertise;  // host for neighbors; empty: this end of the coordinator's connection
  int64_t print_every = 20;
  double connect_timeout_seconds = 30;  // until the coordinator answers
  double step_timeout_seconds = 300;    // until all gradients of a step are in
  std::string on_nonfinite = "ignore";  // or "stop", "skip"
  int64_t check_replicas = 100;         // steps from one comparison to the next; 0: none
  SecurityOptions security;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_
