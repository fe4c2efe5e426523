#ifndef GRADWIRE_COMMON_OPTIONS_SLURM_H_
#define GRADWIRE_COMMON_OPTIONS_SLURM_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The first host of a Slurm node list: "node07" of "node[07-09,12],login1".
// InvalidArgument if a bracket is not closed or the list is empty.
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view nodes);

// How many tasks run on node `node`, counted from 0, of a list such as
// SLURM_STEP_TASKS_PER_NODE: of "2(x3),1", 2 on nodes 0 to 2 and 1 on node 3.
// InvalidArgument if the list is no such list or has fewer nodes.
absl::StatusOr<int> SlurmTasksOnNode(absl::string_view tasks_per_node, int node);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_SLURM_H_
