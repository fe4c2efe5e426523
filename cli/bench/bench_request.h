#ifndef GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_
#define GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/bench_options.h"

namespace gradwire {

// The requests to the scripts of measurements and experiments. All have
//
//   command            as typed, for the report
//   programs           paths of coordinator, worker, collectives (the program of a rank), layout
//                      (which checks that model and data are available), make_certificates, the
//                      engine of back end mpi (mpi), and the folder of the PyTorch scripts (peers)
//   versions           of blas, gradwire and grpc, as text
//   blas_path          path of the workers' BLAS; "": none
//   blas_warning       why it is slow here, and what to export; "": it is not
//   under_mpirun       names of back ends whose ranks mpirun starts
//   one_host           names of back ends whose workers must be on one host
//   cores              that this process may keep busy: bound to, or limited by its container
//   workers, rate, port, timeout_seconds   as the options
//   hosts, hostfile    "": not given; both "": this machine
//   peers              whether PyTorch + Gloo are measured, too
//   link_gbit          null: unknown
//   files              json, csv, markdown
//
// and the options of the measurement, by name.
nlohmann::ordered_json BenchRequest(const BenchOptions& options, const std::string& command);

// Adds
//   model_options          arguments of the worker
//   compute_seconds        null: not emulated; else forward and backward in seconds, and option,
//                          the worker's notation for both
//   ring_seconds_per_byte  minimum time on the links per byte of gradient; null: speed unknown
//   setups                 each with name, kind ("alone", "own", "peer"), options, peers
nlohmann::ordered_json TrainingRequest(const TrainingOptions& options, const std::string& command);

// Adds tls (whether to measure with it, too); ops, each with name, sums (whether it has a type on
// the wire), sizes, and busbw_factor (busbw / algbw); `backends`, PyTorch last, each with
//   name, is_peer
//   asked                   whether the user named the back ends
//   tls                     whether to measure it with TLS, too
//   wires                   types to measure: bytes of an element by name
//   loads_coordinator       whether gradients go through the coordinator
//   least_seconds_per_byte  minimum time on the busiest link, by name of each operation that the
//                           back end has; null: speed unknown
nlohmann::ordered_json CollectivesRequest(const CollectivesOptions& options,
                                          const std::string& command);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_
