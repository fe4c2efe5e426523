#ifndef GRADWIRE_WORKER_OPTIONS_TRAITS_H_
#define GRADWIRE_WORKER_OPTIONS_TRAITS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"

namespace gradwire {

// Properties of a sync, the third column of its row in syncs.inc. A row names only properties that
// differ from the defaults, as in Averages("auto").Overlaps().BucketCapMb(1), so a new trait
// changes only the rows that have it.
struct SyncTraits {
  bool averages = false;  // over all ranks; false: one process alone, without a coordinator
  std::string default_backend = "none";  // "none": averages nothing
  bool on_devices = false;               // divides each batch among the --devices of its process
  bool overlaps = false;                 // buckets leave during backward
  bool updates_late = false;  // a parameter is updated just before the next forward pass reads it
  bool gathers = false;       // at rank 0, which scatters the mean, if the back end can do it
  bool periodic = false;      // named NAME:H; averages the ranks' own models every H steps
  bool outer = false;         // applies the exchanged mean with an outer optimizer
  bool served = false;        // the aggregators keep the model and its optimizer
  bool changes_mean = false;  // writes to a bucket's mean before the optimizer reads it
  double bucket_cap_mb = 25;  // MiB, the default; 0: a bucket for each parameter

  SyncTraits Averages(absl::string_view backend) &&;
  SyncTraits OnDevices() &&;
  SyncTraits Overlaps() &&;
  SyncTraits UpdatesLate() &&;
  SyncTraits Gathers() &&;
  SyncTraits Periodic() &&;
  SyncTraits Outer() &&;
  SyncTraits Served() &&;
  SyncTraits ChangesMean() &&;
  SyncTraits BucketCapMb(double mib) &&;
};

// The network links that an average loads.
enum class LinkPattern {
  kCoordinator,  // gradients go to the coordinator, and means come back
  kWorkers,      // none to the coordinator, the same at all workers
  kRing,         // as kWorkers, from each to the next; a mean enters each host once
  kPairs,        // as kWorkers, the same between any two
  kTree,         // none to the coordinator, most at rank 0
  kNone,         // nothing is sent: all workers share the memory of one host
};

// Whether all workers send the same, and nothing goes to the coordinator.
bool LoadsWorkersAlike(LinkPattern links);

// The collectives that a back end has.
enum class Collectives {
  kTwo,  // all-reduce and broadcast, all that training needs
  kAll,  // all of v1.Collective
};

// Whether the mean is the fold (docs/architecture.md), bit for bit.
enum class Exact {
  kNever,
  kFloat32,  // with float32 on the wire; 16-bit types are rounded more than once
  kAlways,
};

// Properties of a back end, the third column of its row in backends.inc.
struct BackendTraits {
  Exact exact = Exact::kNever;
  bool halves = false;         // takes --wire bf16 and fp16
  bool several_ranks = false;  // a worker may carry several ranks
  bool recovers = false;       // a step can be repeated in a later view
  bool any_order = false;      // workers may begin exchanges in different orders
  bool connections = false;    // accepts several connections to each peer
  bool aggregates = false;     // aggregators fold, and can keep a model (parameter server)
  bool codecs = false;         // accepts a --compress whose payloads the receiver decodes
  LinkPattern links = LinkPattern::kWorkers;
  Collectives collectives = Collectives::kTwo;
  bool tls = true;            // all connections are gRPC's, which TLS encrypts
  bool under_mpirun = false;  // mpirun must start the workers, all in one job

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
  BackendTraits UnderMpirun() &&;
};

// Columns of a row of optimizers.inc.
struct OptimizerTraits {
  bool has_momentum = true;
  double lr = 0.1;
  double weight_decay = 0;
};

// Columns of a row of schedules.inc.
struct ScheduleTraits {
  bool has_steps = false;
};

// Return the traits of the row `name`, or of kAutoBackend; for other names the struct's defaults.
// TraitsOfSync ignores the interval after a colon (see NameOfSync).
SyncTraits TraitsOfSync(absl::string_view name);
BackendTraits TraitsOfBackend(absl::string_view name);
OptimizerTraits TraitsOfOptimizer(absl::string_view name);
ScheduleTraits TraitsOfSchedule(absl::string_view name);

// Returns InvalidArgument if `source` asks for several connections and back end `backend` accepts
// only one to each peer.
absl::Status CheckConnections(absl::string_view backend, int connections, absl::string_view source);

// Checks that a back end can carry gradients as `wire` ("fp32", "bf16", "fp16"), which `source`
// asked for. InvalidArgument if it carries float32 only.
absl::Status CheckWire(absl::string_view backend, absl::string_view wire, absl::string_view source);

// Returns InvalidArgument if `tls` is true and back end `backend` has connections without TLS.
absl::Status CheckTls(absl::string_view backend, bool tls);

// Returns InvalidArgument if back end `backend` needs mpirun, and nothing in the environment says
// that it started this process. MPI would then make a world of one rank.
absl::Status CheckMpirun(absl::string_view backend, const Environment &environment);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_TRAITS_H_
