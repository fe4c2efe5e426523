#ifndef GRADWIRE_WORKER_OPTIONS_TRAITS_H_
#define GRADWIRE_WORKER_OPTIONS_TRAITS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"

namespace gradwire {

// Defines the field `field`, false, and the method `Trait`, which sets it for a row of a table.
#define GRADWIRE_TRAIT(Traits, Trait, field) \
  bool field = false;                        \
  Traits Trait()&& {                         \
    field = true;                            \
    return std::move(*this);                 \
  }
// The same for a field that a row gives a value.
#define GRADWIRE_TRAIT_OF(Traits, Trait, Type, field, value) \
  Type field = value;                                        \
  Traits Trait(Type given)&& {                               \
    field = std::move(given);                                \
    return std::move(*this);                                 \
  }

// Properties of a sync, the third column of its row in syncs.inc. A row names only properties that
// differ from the defaults, as in Averages("auto").Overlaps().BucketCapMb(1), so a new trait
// changes only the rows that have it.
struct SyncTraits {
  bool averages = false;  // over all ranks; false: one process alone, without a coordinator
  std::string default_backend = "none";  // "none": averages nothing
  SyncTraits Averages(absl::string_view backend) && {
    averages = true;
    default_backend = std::string(backend);
    return std::move(*this);
  }
  // Divides each batch among the --devices of its process.
  GRADWIRE_TRAIT(SyncTraits, OnDevices, on_devices)
  // Buckets leave during backward.
  GRADWIRE_TRAIT(SyncTraits, Overlaps, overlaps)
  // A parameter is updated just before the next forward pass reads it.
  GRADWIRE_TRAIT(SyncTraits, UpdatesLate, updates_late)
  // Gathers at rank 0, which scatters the mean, if the back end can do it.
  GRADWIRE_TRAIT(SyncTraits, Gathers, gathers)
  // Named NAME:H; averages the ranks' own models every H steps.
  GRADWIRE_TRAIT(SyncTraits, Periodic, periodic)
  // Applies the exchanged mean with an outer optimizer.
  GRADWIRE_TRAIT(SyncTraits, Outer, outer)
  // The aggregators keep the model and its optimizer.
  GRADWIRE_TRAIT(SyncTraits, Served, served)
  // Writes to a bucket's mean before the optimizer reads it.
  GRADWIRE_TRAIT(SyncTraits, ChangesMean, changes_mean)
  // MiB, the default; 0: a bucket for each parameter.
  GRADWIRE_TRAIT_OF(SyncTraits, BucketCapMb, double, bucket_cap_mb, 25)
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
  GRADWIRE_TRAIT_OF(BackendTraits, Gives, Exact, exact, Exact::kNever)
  // Takes --wire bf16 and fp16.
  GRADWIRE_TRAIT(BackendTraits, Halves, halves)
  // A worker may carry several ranks.
  GRADWIRE_TRAIT(BackendTraits, SeveralRanks, several_ranks)
  // A step can be repeated in a later view.
  GRADWIRE_TRAIT(BackendTraits, Recovers, recovers)
  // Workers may begin exchanges in different orders.
  GRADWIRE_TRAIT(BackendTraits, AnyOrder, any_order)
  // Accepts several connections to each peer.
  GRADWIRE_TRAIT(BackendTraits, Connections, connections)
  // Aggregators fold, and can keep a model (parameter server).
  GRADWIRE_TRAIT(BackendTraits, Aggregates, aggregates)
  // Accepts a --compress whose payloads the receiver decodes.
  GRADWIRE_TRAIT(BackendTraits, Codecs, codecs)
  GRADWIRE_TRAIT_OF(BackendTraits, Loads, LinkPattern, links, LinkPattern::kWorkers)
  GRADWIRE_TRAIT_OF(BackendTraits, Has, Collectives, collectives, Collectives::kTwo)
  // Has connections of its own, which are not encrypted; others are gRPC's.
  GRADWIRE_TRAIT(BackendTraits, NoTls, no_tls)
  // mpirun must start the workers, all in one job.
  GRADWIRE_TRAIT(BackendTraits, UnderMpirun, under_mpirun)
};
#undef GRADWIRE_TRAIT
#undef GRADWIRE_TRAIT_OF

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
absl::Status CheckMpirun(absl::string_view backend, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_TRAITS_H_
