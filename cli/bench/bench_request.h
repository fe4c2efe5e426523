#ifndef GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_
#define GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_

#include <nlohmann/json.hpp>
#include <string>

#include "cli/bench/bench_options.h"

namespace gradwire {

// What the scripts of a measurement, and of experiments, get. All have
//
//   command            as typed, for the report
//   programs           paths of coordinator, worker, collectives (the program of a rank), layout
//                      (which finds out whether model and data can be had), make_certificates,
//                      and of the peers' folder
//   versions           blas, gradwire and grpc, in words
//   blas_path          of the workers' BLAS; "" if there is none
//   workers, hosts (program; ""), hostfile (""; neither: this machine), rate, port, peers
//   (whether), timeout_seconds
//   link_gbit          null if it is not known
//   files              json, csv, markdown
//
// and the options of the measurement itself, by their names.
nlohmann::ordered_json BenchRequest(const BenchOptions& options, const std::string& command);

// More: model_options, of the worker; compute_seconds, null unless computation is emulated, with
// forward, backward, and option, both in the worker's notation; ring_seconds_per_byte of gradient,
// the least time on the links, null if their speed is not known; setups, each with name, kind
// ("alone", "own", "peer"), options, peers.
nlohmann::ordered_json TrainingRequest(const TrainingOptions& options, const std::string& command);

// More: tls (whether to measure with it, too); ops, each with name, sums (whether it has a type on
// the wire), sizes, and busbw_factor, from algbw to busbw; backends, the peers' last, each with
//   name, is_peer
//   tls                     whether it is to be measured with TLS, too
//   wires                   those to be measured: bytes of an element by name
//   loads_coordinator       whether gradients go through it
//   least_seconds_per_byte  of each operation that it has, by name: on the busiest link; null
//                           if its speed is not known
nlohmann::ordered_json CollectivesRequest(const CollectivesOptions& options,
                                          const std::string& command);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_REQUEST_H_
