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

}  // namespace gradwire
