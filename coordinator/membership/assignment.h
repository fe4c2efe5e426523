#ifndef GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_
#define GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace gradwire {

// The ranks that a worker requests; empty: any.
using Wish = std::vector<Rank>;

// Returns the ranks of each worker, in the order of `wishes`: host by host (`Roster::Deal`).
// Workers get the ranks that they request. The other ranks are divided evenly and contiguously
// among workers with an empty wish. Each worker gets at least one rank, in ascending order.
//
//   world size 6, wishes {}, {2}, {}, {}:   0 1 | 2 | 3 4 | 5
//
// No rank may be in two wishes, and all must be below `world_size`. InvalidArgument, with the
// ranks, if no worker would carry some ranks, or if a worker would carry none.
absl::StatusOr<std::vector<std::vector<Rank>>> Assign(const std::vector<Wish>& wishes,
                                                      int world_size);

// Deals the ranks of lost workers, in ascending order, to the others. Each rank goes to a worker
// that carries fewest; of several, to the one with the next rank on the ring. `carried`: each
// worker's ranks, at least one; the dealt ranks are added.
void Adopt(const std::vector<Rank>& orphans, int world_size,
           std::vector<std::vector<Rank>*>* carried);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_MEMBERSHIP_ASSIGNMENT_H_
