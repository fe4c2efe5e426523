#include "worker/backends/ring/ring_schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace gradwire {
namespace {

TEST(RingScheduleTest, SegmentAt_AnySize_SegmentsTileTheBucket) {
  for (int world_size : {1, 2, 3, 7, 16}) {
    for (uint64_t bytes : {uint64_t{4}, uint64_t{8}, uint64_t{400}, uint64_t{36924456}}) {
      for (uint64_t element_bytes : {2, 4}) {
        const RingSchedule schedule(bytes, world_size, element_bytes);
        uint64_t end = 0;
        for (int i = 0; i < world_size; ++i) {
          EXPECT_EQ(schedule.SegmentAt(i).offset, end);
          EXPECT_EQ(schedule.SegmentAt(i).bytes % element_bytes, 0);
          end += schedule.SegmentAt(i).bytes;
        }
        EXPECT_EQ(end, bytes);
      }
    }
  }
}

// Plays all hops with sets of ranks in place of sums.
TEST(RingScheduleTest, SentBy_AllHops_EveryRankEndsWithEveryTerm) {
  for (int world_size : {2, 3, 4, 5, 16}) {
    const RingSchedule schedule(4 * world_size, world_size, 4);
    // terms[rank][segment]: whose terms are in rank's copy.
    std::vector<std::vector<std::set<int>>> terms(world_size);
    for (int rank = 0; rank < world_size; ++rank) terms[rank].assign(world_size, {rank});
    for (int hop = 0; hop < schedule.hops(); ++hop) {
      const auto before = terms;
      for (int sender = 0; sender < world_size; ++sender) {
        const int receiver = (sender + 1) % world_size;
        const int segment = static_cast<int>(schedule.SentBy(sender, hop).offset / 4);
        std::set<int>& copy = terms[receiver][segment];
        if (hop >= schedule.first_mean_hop()) copy.clear();
        copy.insert(before[sender][segment].begin(), before[sender][segment].end());
      }
    }
    for (const auto& rank : terms) {
      for (const auto& segment : rank) EXPECT_EQ(segment.size(), world_size);
    }
  }
}

TEST(RingScheduleTest, SentBy_WholeBucket_BytesAreTheRingBound) {
  const RingSchedule schedule(4 * 1200, 4, 4);
  uint64_t sent = 0;
  for (int hop = 0; hop < schedule.hops(); ++hop) sent += schedule.SentBy(1, hop).bytes;
  EXPECT_EQ(sent, 2 * 3 * 4 * 1200 / 4);
}

}  // namespace
}  // namespace gradwire
