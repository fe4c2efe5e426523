#ifndef GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
#define GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/state/manifest.h"

namespace gradwire {

// An optimizer of torch.optim as its state_dict() has it.
struct OptimizerGroups {
  std::string param_groups;  // the list of dicts, pickled
  // By place in parameters(): the number of the parameter in `param_groups` and in the state; -1:
  // the optimizer leaves it out.
  std::vector<int64_t> numbers;
};

// `parameters`: number of the model's. InvalidArgument if the optimizer is none of ours, a group
// has no learning rate, or a parameter does not exist or is in two groups.
absl::StatusOr<OptimizerGroups> MakeOptimizerGroups(const ManifestOptimizer& optimizer,
                                                    int64_t parameters);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_OPTIMIZER_GROUPS_H_
