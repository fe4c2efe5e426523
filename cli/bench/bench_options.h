#ifndef GRADWIRE_CLI_BENCH_BENCH_OPTIONS_H_
#define GRADWIRE_CLI_BENCH_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/model_flags.h"

namespace gradwire {

// What both measurements are told.
struct BenchOptions {
  int workers = 4;
  std::string hosts;             // program that drives hosts; empty: there is none
  std::string hostfile;          // names hosts; empty, as `hosts`: this machine
  std::string rate = "none";     // of their links, tc's notation
  double link_gbit = 0;          // 0: as `rate` says, else unknown
  int port = 29400;              // of the coordinator on hosts
  bool peers = false;            // PyTorch + Gloo as well
  double timeout_seconds = 600;  // for one set of processes
  ReportFiles files;

  // Speed of the links, if it is known.
  absl::optional<double> LinkGbit() const;
};

struct CollectivesOptions {
  BenchOptions bench;
  uint64_t min_bytes = 4;
  uint64_t max_bytes = 256 << 20;
  uint64_t factor = 4;
  std::vector<uint64_t> sizes;  // empty: as the three above say, and VGG-11's
  std::vector<std::string> ops = {"all-reduce"};
  std::vector<std::string> backends;
  std::vector<std::string> wires = {"fp32"};
  int warmup = 20;
  int iterations = 50;
  double seconds_per_size = 60;  // for the measured iterations; 0: no limit
  bool tls = false;              // with encrypted connections as well

  // Bytes of each bucket, rising.
  std::vector<uint64_t> Sizes() const;
};

struct TrainingOptions : ModelFlags {
  BenchOptions bench;
  std::vector<std::string> setups;  // names; see bench/setups.inc
  int rounds = 3;
  int iterations = 15;  // of each round; the first is not counted
  int64_t batch_size = 8;
  absl::optional<ComputeSeconds> compute_seconds;  // sleeps in place of computation, if any
  std::string dataset = "synthetic";
  std::string data_dir;
};

// 10^9 bits a second of a rate in tc's notation ("1gbit", "500mbit"); none for
// "none". InvalidArgument shows what was got.
absl::StatusOr<absl::optional<double>> GbitOfRate(const std::string& rate);

// Bytes of "4", "36924456", "64K", "1M", "1G" (powers of 1024); a positive
// multiple of 4. InvalidArgument shows what was got.
absl::StatusOr<uint64_t> ParseSize(const std::string& text);

// The options that say where ranks run, and with whom they are compared: all of BenchOptions but
// workers and files.
void AddHosts(BenchOptions* options, OptionParser* parser);
// Of hosts and hostfile clears the one that a stronger one replaces. InvalidArgument if the options
// do not fit together.
absl::Status CheckHosts(const OptionParser& parser, BenchOptions* options);

// Errors as OptionParser::Parse, and InvalidArgument for a list with an unknown
// name (with the nearest right one), or options that do not fit together.
absl::StatusOr<Parsed<CollectivesOptions>> ParseCollectivesOptions(
    const std::vector<std::string>& args, const Environment& environment);
absl::StatusOr<Parsed<TrainingOptions>> ParseTrainingOptions(const std::vector<std::string>& args,
                                                             const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_OPTIONS_H_
