#ifndef GRADWIRE_COMMON_STATE_FINITE_H_
#define GRADWIRE_COMMON_STATE_FINITE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/state/state_plan.h"

namespace gradwire {

// Checks the values of a part of the model or of the optimizer's state; `bytes` are the part's.
// Such a state can only be trained to more of them. InvalidArgument names the tensor: a value is
// infinite or no number. Ignores an element that is cut by the part's border.
absl::Status CheckFinite(const StatePlan& plan, int part, absl::string_view bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_FINITE_H_
