#include "tests/library/ranks.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/sockets.h"

namespace gradwire::testing {
namespace {

std::optional<Error> RunRank(const GroupOptions& options, const RankBody& body) {
  try {
    const std::shared_ptr<ProcessGroup> group = init_process_group(options);
    body(group);
    group->close();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace

Ends RunRanks(int world_size, const RankBody& body, const GroupOptions& options) {
  GroupOptions of_rank = options;
  of_rank.coordinator = UnusedAddress();
  of_rank.coordinator_metrics = "off";
  of_rank.world_size = world_size;
  Ends ends(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    of_rank.rank = of_rank.local_rank = rank;
    threads.emplace_back([&ends, &body, rank, of_rank] {
      ends[static_cast<size_t>(rank)] = RunRank(of_rank, body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

void RunRanksWell(int world_size, const RankBody& body, const GroupOptions& options) {
  const Ends ends = RunRanks(world_size, body, options);
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].has_value()) ADD_FAILURE() << "rank " << rank << ": " << ends[rank]->what();
  }
}

}  // namespace gradwire::testing
