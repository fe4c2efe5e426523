#ifndef GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
#define GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// The first host of a Slurm node list: "node07" of "node[07-09,12],login1".
// InvalidArgument if a bracket is not closed or the list is empty.
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view nodes);

// How many tasks run on node `node`, counted from 0, of a list such as
// SLURM_STEP_TASKS_PER_NODE: of "2(x3),1", 2 on nodes 0 to 2 and 1 on node 3.
// InvalidArgument if the list is no such list or has fewer nodes.
absl::StatusOr<int> SlurmTasksOnNode(absl::string_view tasks_per_node, int node);

// Where the coordinator listens unless told otherwise.
inline constexpr int kCoordinatorPort = 29400;

// What the program that started this one says about its place in the job.
struct LaunchEnvironment {
  std::string launcher;  // "torchrun", "Slurm", "OpenMPI", "PMIx", "Kubeflow", "Kubernetes", or ""
  // By option: rank, world-size, local-rank, local-world-size, coordinator, as far as known.
  LauncherValues values;
};

// Looks for, in this order (the first that is there wins):
//
//   torchrun    RANK and WORLD_SIZE (Kubeflow sets them too), LOCAL_RANK, LOCAL_WORLD_SIZE
//   OpenMPI     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID;
//               SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID, or SLURM_NTASKS_PER_NODE
//   PMIx        PMIX_RANK, PMIX_LOCAL_RANK (the world size is the coordinator's)
//   Kubeflow    PET_NODE_RANK, PET_NNODES: torchrun's options, of one process a node
//   Kubernetes  JOB_COMPLETION_INDEX, WORLD_SIZE if the job's author set it
//
// The coordinator's host is MASTER_ADDR or PET_MASTER_ADDR; without them, in Slurm the first
// node of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST, with OpenMPI 127.0.0.1 if
// all processes are on this host. Its port is MASTER_PORT (PET_MASTER_PORT), or 29400 if there
// is none, or if TORCHELASTIC_USE_AGENT_STORE is True: then torchrun's agent listens there.
//
// What cannot be read is passed on as it is, for whoever judges it to name the variable.
LaunchEnvironment DetectLaunchEnvironment(const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
