#ifndef GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
#define GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"

namespace gradwire {

// Where the coordinator listens unless told otherwise.
inline constexpr int kCoordinatorPort = 29400;

// What the program that started this one says about its place in the job.
struct LaunchEnvironment {
  std::string launcher;  // "torchrun", "Slurm", "OpenMPI", "Kubernetes", "" if none
  // By option: rank, world-size, coordinator, local-world-size, as far as known.
  std::map<std::string, LauncherValue> values;
};

// Looks for, in this order (the first that is there wins):
//
//   torchrun    RANK and WORLD_SIZE (Kubeflow sets them too), LOCAL_WORLD_SIZE
//   OpenMPI     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE
//   Slurm       SLURM_PROCID, SLURM_NTASKS, SLURM_NTASKS_PER_NODE; the coordinator
//               is sought on the first host of SLURM_JOB_NODELIST or SLURM_NODELIST
//   Kubernetes  JOB_COMPLETION_INDEX (the world size is the coordinator's)
//
// MASTER_ADDR, if any of them is there, is the coordinator's host. Its port is
// 29400: MASTER_PORT is where torchrun itself listens, so nothing else can.
LaunchEnvironment DetectLaunchEnvironment(const Environment& environment);

// The first host of a Slurm node list: "node07" of "node[07-09,12],login1".
// InvalidArgument if a bracket is not closed or the list is empty.
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view nodes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_LAUNCH_ENVIRONMENT_H_
