#include "worker/options/traits.h"

#include "absl/strings/str_cat.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"

namespace gradwire {

SyncTraits TraitsOfSync(absl::string_view name) {
  name = NameOfSync(name);
#define GRADWIRE_SYNC(row_name, factory, backend, averages, overlaps, late, gathers, periodic, \
                      outer, served, cap, help)                                                \
  if (name == row_name)                                                                        \
    return {backend, averages, overlaps, late, gathers, periodic, outer, served, cap};
#include "worker/sync/syncs.inc"
#undef GRADWIRE_SYNC
  return {};
}

BackendTraits TraitsOfBackend(absl::string_view name) {
#define GRADWIRE_BACKEND(row_name, factory, exact, halves, several_ranks, connections, codecs, \
                         links, collectives, tls, help)                                        \
  if (name == row_name)                                                                        \
    return {Exact::exact,                                                                      \
            halves,                                                                            \
            several_ranks,                                                                     \
            connections,                                                                       \
            codecs,                                                                            \
            LinkPattern::links,                                                                \
            Collectives::collectives,                                                          \
            tls};
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND
  if (name == kAutoBackend) return TraitsOfBackend(kAutoOfWorkers);
  return {};
}

OptimizerTraits TraitsOfOptimizer(absl::string_view name) {
#define GRADWIRE_OPTIMIZER(row_name, factory, momentum, lr, weight_decay, help) \
  if (name == row_name) return {momentum, lr, weight_decay};
#include "worker/learning/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  return {};
}

absl::Status CheckConnections(absl::string_view backend, int connections,
                              absl::string_view source) {
  if (connections == 1 || TraitsOfBackend(backend).connections) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source, ": got ", connections, " with back end ",
                                                 backend, ", expected 1: it has one to each peer"));
}

absl::Status CheckTls(absl::string_view backend, bool tls) {
  if (!tls || TraitsOfBackend(backend).tls) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-cert: got back end ", backend,
                   ", whose connections cannot be encrypted; expected another one, or no TLS"));
}

ScheduleTraits TraitsOfSchedule(absl::string_view name) {
#define GRADWIRE_SCHEDULE(row_name, factor, has_steps, help) \
  if (name == row_name) return {has_steps};
#include "worker/learning/schedules.inc"
#undef GRADWIRE_SCHEDULE
  return {};
}

}  // namespace gradwire
