#include "worker/options/traits.h"

#include "absl/strings/str_cat.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

bool LoadsWorkersAlike(LinkPattern links) {
  return links == LinkPattern::kWorkers || links == LinkPattern::kRing ||
         links == LinkPattern::kPairs;
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
  if (!tls || !TraitsOfBackend(backend).no_tls) return absl::OkStatus();
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
