#include "worker/options/traits.h"

#include "worker/options/choices.h"

namespace gradwire {

SyncTraits TraitsOfSync(absl::string_view name) {
#define GRADWIRE_SYNC(row_name, factory, backend, averages, overlaps, late, gathers, cap, help) \
  if (name == row_name) return {backend, averages, overlaps, late, gathers, cap};
#include "worker/sync/syncs.inc"
#undef GRADWIRE_SYNC
  return {};
}

BackendTraits TraitsOfBackend(absl::string_view name) {
#define GRADWIRE_BACKEND(row_name, factory, exact, halves, several_ranks, links, collectives, \
                         help)                                                                \
  if (name == row_name)                                                                       \
    return {Exact::exact, halves, several_ranks, LinkPattern::links, Collectives::collectives};
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND
  if (name == kAutoBackend) return {Exact::kFloat32, true, true, LinkPattern::kWorkers, {}};
  return {};
}

OptimizerTraits TraitsOfOptimizer(absl::string_view name) {
#define GRADWIRE_OPTIMIZER(row_name, factory, momentum, lr, weight_decay, help) \
  if (name == row_name) return {momentum, lr, weight_decay};
#include "worker/learning/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  return {};
}

ScheduleTraits TraitsOfSchedule(absl::string_view name) {
#define GRADWIRE_SCHEDULE(row_name, factor, has_steps, help) \
  if (name == row_name) return {has_steps};
#include "worker/learning/schedules.inc"
#undef GRADWIRE_SCHEDULE
  return {};
}

}  // namespace gradwire
