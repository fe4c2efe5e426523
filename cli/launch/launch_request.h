#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_

#include <nlohmann/json.hpp>

#include "cli/launch/launch_options.h"

namespace gradwire {

// What cli/launch/launch.py gets:
//
//   programs             paths of coordinator, worker and gradwire
//   program              to start in place of the worker; "": none
//   workers, world_size
//   hostfile             "": this machine
//   per_host             workers on each of its hosts; 0: as it says
//   network              of its hosts' addresses, "10.10.1.0/24"; "": as it says
//   coordinator          its options, texts by name; null if there is nothing to coordinate. With a
//                        hostfile without listen and metrics, unless they were given
//   lease_seconds        silence after which one of them is lost
//   linger_seconds       of the coordinator
//   token_file           of all; "": a random token
//   rank_options         [[rank, [argument, ...]], ...]
//   log_jsonl, metrics, listen   of a worker; these differ by rank
//   config               the workers' file; "": none
//   dataset, data_dir, weights   what a worker reads
//   summary, trace       files; "": not written
//   seconds_per_byte     of a link, at least; null if its speed is not known
//   phases               as PhaseListJson
//   overlapping          names of syncs whose transfers run beside backward
//   halving              names of back ends that take half types
//   through_coordinator  names of back ends that load the coordinator's link
nlohmann::ordered_json LaunchRequest(const LaunchOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_REQUEST_H_
