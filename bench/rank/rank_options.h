#ifndef GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_
#define GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/options/option_parser.h"
#include "common/options/security_options.h"

namespace gradwire {

// Values of --tensors: whose memory the tensors lie in, the process's own or the one that it
// shares.
inline constexpr char kOwnTensors[] = "own";
inline constexpr char kSharedTensors[] = "shared";

// The options that `gradwire bench collectives` gives to one rank.
struct RankOptions {
  std::string coordinator = "127.0.0.1:29400";
  int rank = 0;
  int world_size = 1;
  std::string backend = "ring";
  std::string wire = "fp32";
  std::string op = "all-reduce";  // name of an Operation
  std::string tensors = kOwnTensors;
  bool show = false;  // one iteration; print input and output
  uint64_t bytes = 4;
  int warmup = 20;
  int iterations = 50;
  double seconds = 0;  // 0: no limit
  double timeout_seconds = 120;
  SecurityOptions security;
};

// Reads flags. Errors as OptionParser::Parse. InvalidArgument also if the operation cannot divide
// the size, the back end does not have the operation, or the rank is not below the world size.
absl::StatusOr<Parsed<RankOptions>> ParseRankOptions(const std::vector<std::string>& args);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_
