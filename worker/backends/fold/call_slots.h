#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_CALL_SLOTS_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_CALL_SLOTS_H_

#include "common/aggregation/aggregation_service.h"
#include "worker/backends/backend.h"

namespace gradwire {

// Returns what makes the memory of a Gather or Scatter call between two workers of a host: slots of
// the sender (worker/backends/memory/payload_slots.h). Empty without BackendOptions::slots.
MakeCallMemory CallMemoryOf(const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_CALL_SLOTS_H_
