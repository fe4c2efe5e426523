// gradwire-collectives: one rank of `gradwire bench collectives`.
#include <spdlog/spdlog.h>

#include <iostream>

#include "bench/rank/collective_rank.h"
#include "bench/rank/rank_options.h"
#include "common/base/logging.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire-collectives";

int Main(int argc, char** argv) {
  LogToStderr();
  KeepFreedMemory();
  const absl::StatusOr<Parsed<RankOptions>> parsed = ParseRankOptions(Arguments(argc, argv));
  if (const auto exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const auto rank = CollectiveRank::Join(parsed->options);
  const absl::StatusOr<std::string> result =
      rank.ok() ? (*rank)->Measure() : absl::StatusOr<std::string>(rank.status());
  if (!result.ok()) {
    spdlog::error("{}", std::string(result.status().message()));
    return ExitCode(result.status());
  }
  std::cout << *result;
  return ExitAfterPrinting(kProgram, kExitDone);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
