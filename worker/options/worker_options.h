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

// Everything a worker can be told. Names, units and meaning: `gradwire-worker --help`.
// Defaults are here and nowhere else.
struct WorkerOptions : ModelFlags, SyncSettings {
  std::string coordinator = "127.0.0.1:29400";
  std::vector<Rank> ranks;  // ascending; none: the coordinator deals
  int world_size = 0;       // 0: what the coordinator says
  // Rank 0 is the coordinator too, if nobody listens at its address.
  bool host_coordinator = false;
  std::string coordinator_metrics;  // of that one; empty: the usual place, or another port
  std::string sync = "ddp";         // with its interval, if it has one (see NameOfSync)
  int64_t staleness = 0;            // steps, of one that is served; below 0: no bound
  std::string backend;              // "none" with a sync that averages nothing
  double bucket_cap_mb = -1;        // MiB; 0: a bucket per parameter; below: as suits the sync
  bool barrier = false;  // all parameters are updated before the next forward pass begins
  std::string wire = "fp32";
  std::string compress = "none";  // or a row of codecs.inc
  int64_t compress_warmup = 0;    // steps until its density is reached, or it begins
  int connections = 1;            // to each aggregator (back ends coordinator and sharded)
  int groups = 1;                 // that buckets take turns on
  bool broadcast_buffers = true;
  std::string weights;       // file to start from; empty: drawn
  std::string save_weights;  // file
  std::string dataset = "fashion-mnist";
  std::string data_dir;                            // empty: the data set's usual place
  int64_t batch_size = 64;                         // per rank, of one forward pass
  int64_t accumulate = 1;                          // forward and backward passes per iteration
  int devices = 1;                                 // of this process, with sync data-parallel
  absl::optional<ComputeSeconds> compute_seconds;  // sleeps in place of computation, if any
  std::string inference;   // native or vanilla, in place of training; empty: trains
  int64_t iterations = 0;  // 0: as --epochs says
  int64_t epochs = 1;
  std::string loss = "cross-entropy";
  std::string optimizer = "sgd";
  double lr = 0;  // 0: as suits the optimiser
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = -1;  // below 0: as suits the optimiser
  double clip_norm = 0;      // the most that an averaged gradient may have; 0: no limit
  std::string lr_schedule = "constant";
  int64_t lr_step_epochs = 30;  // of schedule step
  double lr_gamma = 0.1;        // likewise
  int64_t warmup_epochs = 0;
  bool scale_lr = false;      // lr is for base_batch samples an iteration, of all ranks
  int64_t base_batch = 256;   // likewise
  uint64_t seed = 744;        // weights and augmentation
  uint64_t sampler_seed = 0;  // order of samples, as torch's DistributedSampler
  bool augment = true;
  bool drop_last = false;      // of the sampler's tail
  bool set_epoch = true;       // each epoch has an order of its own
  int loaders = 1;             // threads that make batches
  int threads = 0;             // compute threads of a device; 0: what all hosts can give
  std::string instructions;    // of sums and checksums; empty: the best that the processor has
  int local_world_size = 1;    // workers on this host
  bool evaluate = false;       // at the end
  int64_t evaluate_every = 0;  // epochs; 0: only at the end
  std::string log_jsonl;
  std::string trace;
  std::string summary;
  std::string metrics;    // empty: not served
  std::string listen;     // Neighbor service; empty: towards the coordinator
  std::string advertise;  // host that neighbours use; empty: of the connection to the coordinator
  int64_t print_every = 20;
  double connect_timeout_seconds = 30;  // until the coordinator answers
  double step_timeout_seconds = 300;    // until all gradients of a step are in
  std::string on_nonfinite = "ignore";  // a mean gradient; or "stop", "skip"
  int64_t check_replicas = 100;         // steps from one comparison to the next; 0: none
  SecurityOptions security;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTIONS_H_
