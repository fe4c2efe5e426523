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

// Options of both measurements.
struct BenchOptions {
  int workers = 4;
  std::string hosts;             // program that creates hosts; empty: none
  std::string hostfile;          // file of hosts; if `hosts` is empty, too: this machine
  std::string rate = "none";     // rate of the links of `hosts`, in tc's notation
  double link_gbit = 0;          // 0: by `rate`; unknown without a rate
  int port = 29400;              // port of the coordinator on hosts
  bool peers = false;            // also measure PyTorch + Gloo
  double timeout_seconds = 600;  // limit of each start of all ranks
  ReportFiles files;

  // The speed of the links in Gbit/s, if known.
  absl::optional<double> LinkGbit() const;
};

struct CollectivesOptions {
  BenchOptions bench;
  uint64_t min_bytes = 4;
  uint64_t max_bytes = 256 << 20;
  uint64_t factor = 4;
  std::vector<uint64_t> sizes;  // empty: by the three above, and VGG-11's
  std::vector<std::string> ops = {"all-reduce"};
  std::vector<std::string> backends;
  bool backends_given = false;
  std::vector<std::string> wires = {"fp32"};
  int warmup = 20;
  int iterations = 50;
  double seconds_per_size = 60;  // limit of the measured iterations; 0: no limit
  bool tls = false;              // also measure encrypted connections

  // The sizes of the buckets in bytes, ascending.
  std::vector<uint64_t> Sizes() const;
};

struct TrainingOptions : ModelFlags {
  BenchOptions bench;
  std::vector<std::string> setups;  // names from bench/setups.inc
  int rounds = 3;
  int iterations = 15;  // per round; the first is not counted
  int64_t batch_size = 8;
  absl::optional<ComputeSeconds> compute_seconds;  // if set, sleeps instead of computing
  std::string dataset = "synthetic";
  std::string data_dir;
};

// Converts a rate in tc's notation ("1gbit", "500mbit") to Gbit/s; nullopt for "none".
// InvalidArgument shows `rate`.
absl::StatusOr<absl::optional<double>> GbitOfRate(const std::string& rate);

// Parses "4", "36924456", "64K", "1M", "1G" (powers of 1024) into bytes: a positive multiple of 4.
// InvalidArgument shows `text`.
absl::StatusOr<uint64_t> ParseSize(const std::string& text);

// Adds all options of BenchOptions except workers and files: where ranks run, and what they are
// compared with.
void AddHosts(BenchOptions* options, OptionParser* parser);
// Keeps only the stronger of hosts and hostfile (flag > environment > file). InvalidArgument if the
// options do not fit together.
absl::Status CheckHosts(const OptionParser& parser, BenchOptions* options);

// Errors as OptionParser::Parse. InvalidArgument also for an unknown name in a list (suggests the
// nearest one), and for options that do not fit together.
absl::StatusOr<Parsed<CollectivesOptions>> ParseCollectivesOptions(
    const std::vector<std::string>& args, const Environment& environment);
absl::StatusOr<Parsed<TrainingOptions>> ParseTrainingOptions(const std::vector<std::string>& args,
                                                             const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_OPTIONS_H_
