#ifndef GRADWIRE_COMMON_WIRE_VIEW_CHANGE_H_
#define GRADWIRE_COMMON_WIRE_VIEW_CHANGE_H_

#include <vector>

#include "common/base/ids.h"
#include "common/wire/view.h"

namespace gradwire {

// A worker that carries ranks which another one carried before.
struct Adoption {
  Member by;                // with all its ranks, as in the later view
  std::vector<Rank> ranks;  // those that it has from others, ascending
};

// What became of a run's workers between two views.
struct ViewChange {
  std::vector<Member> lost;  // as they were in the earlier view, in its order
  std::vector<Adoption> adoptions;

  // All ranks of `lost`, ascending.
  std::vector<Rank> LostRanks() const;
};

// `now` is a later view of the run than `before`, one or several generations.
ViewChange ChangeOf(const View& before, const View& now);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_VIEW_CHANGE_H_
