#include "worker/options/traits.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

// Defines a trait that sets one field.
#define GRADWIRE_TRAIT(Traits, Name, argument, field, value) \
  Traits Traits::Name(argument)&& {                          \
    field = value;                                           \
    return std::move(*this);                                 \
  }
GRADWIRE_TRAIT(SyncTraits, OnDevices, , on_devices, true)
GRADWIRE_TRAIT(SyncTraits, Overlaps, , overlaps, true)
GRADWIRE_TRAIT(SyncTraits, UpdatesLate, , updates_late, true)
GRADWIRE_TRAIT(SyncTraits, Gathers, , gathers, true)
GRADWIRE_TRAIT(SyncTraits, Periodic, , periodic, true)
GRADWIRE_TRAIT(SyncTraits, Outer, , outer, true)
GRADWIRE_TRAIT(SyncTraits, Served, , served, true)
GRADWIRE_TRAIT(SyncTraits, ChangesMean, , changes_mean, true)
GRADWIRE_TRAIT(SyncTraits, BucketCapMb, double mib, bucket_cap_mb, mib)
GRADWIRE_TRAIT(BackendTraits, Gives, Exact fold, exact, fold)
GRADWIRE_TRAIT(BackendTraits, Halves, , halves, true)
GRADWIRE_TRAIT(BackendTraits, SeveralRanks, , several_ranks, true)
GRADWIRE_TRAIT(BackendTraits, Recovers, , recovers, true)
GRADWIRE_TRAIT(BackendTraits, AnyOrder, , any_order, true)
GRADWIRE_TRAIT(BackendTraits, Connections, , connections, true)
GRADWIRE_TRAIT(BackendTraits, Aggregates, , aggregates, true)
GRADWIRE_TRAIT(BackendTraits, Codecs, , codecs, true)
GRADWIRE_TRAIT(BackendTraits, Loads, LinkPattern pattern, links, pattern)
GRADWIRE_TRAIT(BackendTraits, Has, Collectives all, collectives, all)
GRADWIRE_TRAIT(BackendTraits, NoTls, , tls, false)
GRADWIRE_TRAIT(BackendTraits, UnderMpirun, , under_mpirun, true)
#undef GRADWIRE_TRAIT

bool LoadsWorkersAlike(LinkPattern links) {
  return links == LinkPattern::kWorkers || links == LinkPattern::kRing ||
         links == LinkPattern::kPairs;
}

SyncTraits SyncTraits::Averages(absl::string_view backend) && {
  averages = true;
  default_backend = std::string(backend);
  return std::move(*this);
}

SyncTraits TraitsOfSync(absl::string_view name) {
  name = NameOfSync(name);
#define GRADWIRE_SYNC(row_name, factory, traits, help) \
  if (name == row_name) return SyncTraits() traits;
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC
  return {};
}

BackendTraits TraitsOfBackend(absl::string_view name) {
#define GRADWIRE_BACKEND(row_name, factory, traits, help) \
  if (name == row_name) return BackendTraits() traits;
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  // For a codec it takes another row, which has codecs.
  if (name == kAutoBackend) return TraitsOfBackend(kAutoOfWorkers).Codecs();
  return {};
}

OptimizerTraits TraitsOfOptimizer(absl::string_view name) {
#define GRADWIRE_OPTIMIZER(row_name, factory, momentum, lr, weight_decay, help) \
  if (name == row_name) return {momentum, lr, weight_decay};
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  return {};
}

absl::Status CheckConnections(absl::string_view backend, int connections,
                              absl::string_view source) {
  if (connections == 1 || TraitsOfBackend(backend).connections) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": got ", connections, " with back end ", backend,
                   ", expected 1: this back end has one connection to each peer"));
}

absl::Status CheckWire(absl::string_view backend, absl::string_view wire,
                       absl::string_view source) {
  if (wire == "fp32" || TraitsOfBackend(backend).halves) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source, ": got '", wire, "' with back end ",
                                                 backend,
                                                 ", expected fp32: it carries float32 only"));
}

absl::Status CheckTls(absl::string_view backend, bool tls) {
  if (!tls || TraitsOfBackend(backend).tls) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-cert: got back end ", backend,
                   ", whose connections cannot be encrypted; expected another one, or no TLS"));
}

absl::Status CheckMpirun(absl::string_view backend, const Environment& environment) {
  const bool started = !Value(environment, "OMPI_COMM_WORLD_SIZE").empty() ||
                       !Value(environment, "PMIX_RANK").empty();
  if (started || !TraitsOfBackend(backend).under_mpirun) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "back end ", backend,
      ": got neither OMPI_COMM_WORLD_SIZE nor PMIX_RANK in the environment, expected workers that "
      "mpirun has started: 'gradwire launch' on one machine, or 'mpirun -np W gradwire-worker "
      "--host-coordinator --backend ",
      backend, "' (docs/deploy/mpi.md)"));
}

ScheduleTraits TraitsOfSchedule(absl::string_view name) {
#define GRADWIRE_SCHEDULE(row_name, factor, has_steps, help) \
  if (name == row_name) return {has_steps};
#include "worker/options/schedules.inc"
#undef GRADWIRE_SCHEDULE
  return {};
}

}  // namespace gradwire
