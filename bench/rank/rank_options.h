#ifndef GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_
#define GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/options/option_parser.h"
#include "common/options/security_options.h"

namespace gradwire {

// Everything that `gradwire bench collectives` tells one rank.
struct RankOptions {
  std::string coordinator = "127.0.0.1:29400";
  int rank = 0;
  int world_size = 1;
  std::string backend = "ring";
  std::string wire = "fp32";
  std::string op = "all-reduce";  // an Operation's name
  bool show = false;              // one iteration, with what goes in and comes out
  uint64_t bytes = 4;
  int warmup = 20;
  int iterations = 50;
  double seconds = 0;  // 0: no limit
  double timeout_seconds = 120;
  SecurityOptions security;
};

// Reads flags; errors as OptionParser::Parse, and InvalidArgument for a size that
// the operation cannot cut, one that the back end does not have, or a rank beyond the world size.
absl::StatusOr<Parsed<RankOptions>> ParseRankOptions(const std::vector<std::string>& args);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_RANK_OPTIONS_H_
