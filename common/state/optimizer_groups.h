#ifndef GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
#define GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/state/manifest.h"

namespace gradwire {

// Returns the one dict of param_groups of optimizer.state_dict() in torch.optim, pickled, for this
// many parameters. InvalidArgument if the optimizer is none of ours, or an option is missing.
absl::StatusOr<std::string> PickleGroup(const ManifestOptimizer& optimizer, int64_t parameters);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
