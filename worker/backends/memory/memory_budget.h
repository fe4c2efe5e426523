#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BUDGET_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BUDGET_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/memory/bucket_format.h"

namespace gradwire {

// The shared memory that a view's layouts need, against the limits of its workers. The limits are
// part of the view, so all workers decide alike, before any of them allocates: either all share a
// layout's memory or none does. Of memory that other things need, too, at most half is taken.
class MemoryBudget {
 public:
  MemoryBudget(const View& view, const MemoryWire& wire)
      : view_(view), wire_(wire), needed_(view.members.size(), 0) {}

  // Adds a layout, given in float32 and bytes. Returns ResourceExhausted, and adds nothing, if
  // some worker cannot get as much memory; the message names it, its limit and what is needed.
  absl::Status Add(absl::Span<const BucketSpec> buckets);

 private:
  const View view_;
  const MemoryWire wire_;
  std::vector<uint64_t> needed_;  // by worker: bytes of its own memory
};

// Returns ResourceExhausted, with the same message, if a worker cannot get a memory of `own` bytes,
// or map `all` bytes, which the memory of all workers has.
absl::Status CheckMemoryLimits(const Member& member, uint64_t own, uint64_t all);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BUDGET_H_
