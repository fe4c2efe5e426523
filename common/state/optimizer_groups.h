#ifndef GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
#define GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/state/manifest.h"

namespace gradwire {

// An optimizer of torch.optim as its state_dict() has it.
struct OptimizerGroups {
  std::string param_groups;  // the list of dicts, pickled
  // By place: the number of each parameter of the optimizer in `param_groups` and in the state.
  std::map<int64_t, int64_t> numbers;
};

// `parameters`: number of the model's that a checkpoint has; those without elements have the places
// after them. InvalidArgument if the optimizer is none of ours, a group has no learning rate, or a
// parameter is listed twice.
absl::StatusOr<OptimizerGroups> MakeOptimizerGroups(const ManifestOptimizer& optimizer,
                                                    int64_t parameters);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
