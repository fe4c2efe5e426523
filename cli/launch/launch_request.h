#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_

#include <nlohmann/json.hpp>

#include "cli/launch/launch_options.h"

namespace gradwire {

// The request to cli/launch/launch.py:
//
//   programs             paths of coordinator, worker, gradwire and the engine of back end mpi
//   (mpi) program              the --program to start; "": the worker workers, world_size mpirun
//   whether mpirun starts the workers, because their back end needs it hostfile             "":
//   this machine per_host             workers on each host; 0: as in the hostfile network
//   "10.10.1.0/24", to choose addresses; "": as in the hostfile coordinator          its options,
//   texts by name; null: no coordinator. With a hostfile, listen
//                        and metrics only if they were given
//   lease_seconds        silence after which a worker is lost
//   linger_seconds       as the coordinator's option
//   token_file           token of all processes; "": a random token
//   rank_options         [[rank, [argument, ...]], ...]
//   log_jsonl, metrics, listen   options of a worker that differ by rank
//   config               configuration file of the workers; "": none
//   dataset, data_dir, weights   the files that a worker reads
//   summary, trace       files; "": not written
//   seconds_per_byte     minimum time on a link; null: speed unknown
//   phases               see PhaseListJson
//   overlapping          names of syncs whose transfers overlap backward
//   halving              names of back ends that send half the bytes with 16-bit types
//   through_coordinator  names of back ends that load the coordinator's link
nlohmann::ordered_json LaunchRequest(const LaunchOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_
