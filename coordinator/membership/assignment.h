#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "coordinator/membership/participant.h"

namespace gradwire {

// The ranks that a worker wants to carry; none: any.
using Wish = std::vector<Rank>;

// Who carries which of the `world_size` ranks: of each worker, by its place in `wishes`, the
// order of joining. Wanted ranks are theirs; what nobody wants is dealt to those that want
// any, evenly and contiguously. Each gets at least one, in ascending order.
//
//   world size 6, wishes {}, {2}, {}, {}:   0 1 | 2 | 3 4 | 5
//
// No rank stands in two wishes, and all are below `world_size`. InvalidArgument if ranks
// would be carried by nobody, which it names, or a worker would carry none.
absl::StatusOr<std::vector<std::vector<Rank>>> Assign(const std::vector<Wish>& wishes,
                                                      int world_size);

// Deals ranks whose carrier is gone to those who carry the others: each, ascending, to one of those
// that carry fewest, the nearest behind it round the ring of ranks. `carried`: what each carries,
// one or more, and gets.
void Adopt(const std::vector<Rank>& orphans, int world_size,
           std::vector<std::vector<Rank>*>* carried);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_
