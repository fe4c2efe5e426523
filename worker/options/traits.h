#ifndef GRADWIRE_WORKER_OPTIONS_TRAITS_H_
#define GRADWIRE_WORKER_OPTIONS_TRAITS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// What a sync is like: the third column of its row in syncs.inc. A row names only what sets it
// apart, as in Averages("auto").Overlaps().BucketCapMb(1), so a new trait touches only the rows
// that have it.
struct SyncTraits {
  bool averages = false;  // over all ranks; false: one process alone, without a coordinator
  std::string default_backend = "none";  // "none" for a sync that averages nothing
  bool on_devices = false;               // divides each batch among the --devices of its process
  bool overlaps = false;                 // buckets leave during backward
  bool updates_late = false;  // updates as late as the next forward pass reads a parameter
  bool gathers = false;       // at rank 0, which scatters the mean, if the back end can
  bool periodic = false;      // told as NAME:H; averages the ranks' own models every H steps
  bool outer = false;         // passes what is exchanged through an outer optimizer
  bool served = false;        // the aggregators keep the model and its optimizer
  double bucket_cap_mb = 25;  // MiB unless told otherwise; 0: a bucket for each parameter

  SyncTraits Averages(absl::string_view backend) &&;
  SyncTraits OnDevices() &&;
  SyncTraits Overlaps() &&;
  SyncTraits UpdatesLate() &&;
  SyncTraits Gathers() &&;
  SyncTraits Periodic() &&;
  SyncTraits Outer() &&;
  SyncTraits Served() &&;
  SyncTraits BucketCapMb(double mib) &&;
};

// Which links an average loads.
enum class LinkPattern {
  kCoordinator,  // gradients go up to the coordinator and means come down
  kWorkers,      // the coordinator moves none, and all workers the same
  kTree,         // nor here, and rank 0 the most
};

// Which collectives a back end has.
enum class Collectives {
  kTwo,  // all-reduce and broadcast: all that training needs
  kAll,  // those of v1.Collective
};

// Whether a mean is the fold (docs/architecture.md), bit for bit.
enum class Exact {
  kNever,
  kFloat32,  // with float32 on the wire; halves are rounded more than once
  kAlways,
};

// What a back end is like: the third column of its row in backends.inc, in the same manner.
struct BackendTraits {
  Exact exact = Exact::kNever;
  bool halves = false;         // takes --wire bf16 and fp16
  bool several_ranks = false;  // a worker may carry more than one
  bool recovers = false;       // a step can be done again in a further view
  bool any_order = false;      // workers may begin exchanges in different orders
  bool connections = false;    // takes more than one to each of its peers
  bool aggregates = false;     // aggregators fold, and may keep a model (parameter server)
  bool codecs = false;         // takes a --compress whose payloads the receiver decodes
  LinkPattern links = LinkPattern::kWorkers;
  Collectives collectives = Collectives::kTwo;
  bool tls = true;  // all its connections are gRPC's, which TLS encrypts

  BackendTraits Gives(Exact fold) &&;
  BackendTraits Halves() &&;
  BackendTraits SeveralRanks() &&;
  BackendTraits Recovers() &&;
  BackendTraits AnyOrder() &&;
  BackendTraits Connections() &&;
  BackendTraits Aggregates() &&;
  BackendTraits Codecs() &&;
  BackendTraits Loads(LinkPattern pattern) &&;
  BackendTraits Has(Collectives all) &&;
  BackendTraits NoTls() &&;
};

// The columns of a row of optimizers.inc, likewise.
struct OptimizerTraits {
  bool has_momentum = true;
  double lr = 0.1;
  double weight_decay = 0;
};

// The columns of a row of schedules.inc, likewise.
struct ScheduleTraits {
  bool has_steps = false;
};

// Of a name that stands in its table, or kAutoBackend; for others the struct's defaults. What
// follows a colon in the name of a sync, its interval, does not matter (see NameOfSync).
SyncTraits TraitsOfSync(absl::string_view name);
BackendTraits TraitsOfBackend(absl::string_view name);
OptimizerTraits TraitsOfOptimizer(absl::string_view name);
ScheduleTraits TraitsOfSchedule(absl::string_view name);

// InvalidArgument if back end `backend` takes no more than one connection to each peer, and
// `source` asks for several.
absl::Status CheckConnections(absl::string_view backend, int connections, absl::string_view source);

// InvalidArgument if `tls` is asked for and back end `backend` has connections without it.
absl::Status CheckTls(absl::string_view backend, bool tls);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_TRAITS_H_
