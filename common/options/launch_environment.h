#ifndef GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
#define GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// Returns the first host of a Slurm node list: "node07" for "node[07-09,12],login1".
// InvalidArgument if a bracket is not closed or the list is empty.
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view nodes);

// Returns the number of tasks on node `node`, counted from 0, in a list such as
// SLURM_STEP_TASKS_PER_NODE: for "2(x3),1", it is 2 on nodes 0 to 2 and 1 on node 3.
// InvalidArgument if the list is malformed or too short.
absl::StatusOr<int> SlurmTasksOnNode(absl::string_view tasks_per_node, int node);

// Default port of the coordinator.
inline constexpr int kCoordinatorPort = 29400;

// The place of this process in its job, from the launcher's environment.
struct LaunchEnvironment {
  std::string launcher;  // "torchrun", "Slurm", "OpenMPI", "PMIx", "Kubeflow", "Kubernetes", or ""
  // By option: rank, world-size, local-rank, local-world-size, coordinator; only those known.
  LauncherValues values;
};

// Tries these launchers in this order; the first match wins:
//
//   torchrun    RANK and WORLD_SIZE (Kubeflow sets them too), LOCAL_RANK, LOCAL_WORLD_SIZE
//   OpenMPI     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID;
//               SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID, or SLURM_NTASKS_PER_NODE
//   PMIx        PMIX_RANK, PMIX_LOCAL_RANK (the world size is the coordinator's)
//   Kubeflow    PET_NODE_RANK, PET_NNODES: torchrun's options with one process per node
//   Kubernetes  JOB_COMPLETION_INDEX, WORLD_SIZE if the job's author set it
//
// The coordinator's host is MASTER_ADDR or PET_MASTER_ADDR. Without them it is, in Slurm, the first
// node of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST and, with OpenMPI, 127.0.0.1 if
// all processes run on this host. Its port is MASTER_PORT (PET_MASTER_PORT). The port is 29400 if
// that is not set, or if TORCHELASTIC_USE_AGENT_STORE is True: then torchrun's agent uses it.
//
// A value that cannot be parsed is returned as it is; the option's own check then names the
// variable.
LaunchEnvironment DetectLaunchEnvironment(const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
