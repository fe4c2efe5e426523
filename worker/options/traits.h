#ifndef GRADWIRE_WORKER_OPTIONS_TRAITS_H_
#define GRADWIRE_WORKER_OPTIONS_TRAITS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The columns of a row of syncs.inc, but for what it makes; they are explained there.
struct SyncTraits {
  std::string default_backend;  // "none" for one that averages nothing
  bool averages = true;
  bool overlaps = false;
  bool updates_late = false;
  bool gathers = false;
  bool periodic = false;
  bool outer = false;
  bool served = false;
  double bucket_cap_mb = 25;
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

// The columns of a row of backends.inc, likewise.
struct BackendTraits {
  Exact exact = Exact::kNever;
  bool halves = false;
  bool several_ranks = false;
  bool connections = false;
  bool codecs = false;
  LinkPattern links = LinkPattern::kWorkers;
  Collectives collectives = Collectives::kTwo;
  bool tls = true;
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
