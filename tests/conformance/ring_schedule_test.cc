#include "worker/backends/ring/ring_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace gradwire {
namespace {

RingSchedule ScheduleOf(const BucketSpec& spec, int world_size) {
  return RingSchedule(Bucket(0), spec, FoldBlocks({spec}, world_size), world_size);
}

TEST(RingSchedule, SentBy_FirstHop_AllRangesOnceFromTheirFirstRank) {
  for (const int world_size : {1, 2, 3, 7, 16}) {
    for (const uint64_t bytes : {uint64_t{4}, uint64_t{8}, uint64_t{400}, uint64_t{36924456}}) {
      const RingSchedule schedule = ScheduleOf({bytes, v1::DTYPE_FLOAT32}, world_size);
      std::map<uint64_t, uint64_t> ends;  // by offset
      for (int rank = 0; rank < world_size; ++rank) {
        for (const RingParcel& parcel : schedule.SentBy(Rank(rank), 0)) {
          uint64_t sum = 0;
          for (const FoldRange& range : parcel.ranges) {
            EXPECT_EQ(range.first_rank, rank);
            ends[range.offset] = range.offset + range.bytes;
            sum += range.bytes;
          }
          EXPECT_EQ(parcel.bytes, sum);
          EXPECT_LE(sum, 512u << 10);
        }
      }
      uint64_t end = 0;
      for (const auto& [offset, to] : ends) {
        EXPECT_EQ(offset, end);
        end = to;
      }
      EXPECT_EQ(end, bytes);
    }
  }
}

// Plays all hops with sets of ranks in place of sums.
TEST(RingSchedule, SentBy_AllHops_EveryRankEndsWithEveryTerm) {
  for (const int world_size : {2, 3, 4, 5, 16}) {
    const RingSchedule schedule = ScheduleOf({400000, v1::DTYPE_FLOAT32}, world_size);
    // terms[rank][offset]: whose terms are in rank's copy.
    std::vector<std::map<uint64_t, std::set<int>>> terms(world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      for (int first = 0; first < world_size; ++first) {
        for (const RingParcel& parcel : schedule.SentBy(Rank(first), 0)) {
          for (const FoldRange& range : parcel.ranges) terms[rank][range.offset] = {rank};
        }
      }
    }
    for (int hop = 0; hop < schedule.hops(); ++hop) {
      const auto before = terms;
      for (int sender = 0; sender < world_size; ++sender) {
        for (const RingParcel& parcel : schedule.SentBy(Rank(sender), hop)) {
          for (const FoldRange& range : parcel.ranges) {
            std::set<int>& copy = terms[(sender + 1) % world_size][range.offset];
            if (hop >= schedule.first_mean_hop()) copy.clear();
            const std::set<int>& sent = before[sender].at(range.offset);
            copy.insert(sent.begin(), sent.end());
          }
        }
      }
    }
    for (const auto& rank : terms) {
      for (const auto& [offset, whose] : rank) EXPECT_EQ(whose.size(), world_size) << offset;
    }
  }
}

TEST(RingSchedule, BytesSentBy_AllRanks_TogetherTheRingBound) {
  const RingSchedule schedule = ScheduleOf({36924456, v1::DTYPE_FLOAT32}, 4);
  uint64_t sent = 0;
  for (int rank = 0; rank < 4; ++rank) {
    sent += schedule.BytesSentBy(Rank(rank));
    // Shares differ by less than a block.
    EXPECT_NEAR(static_cast<double>(schedule.BytesSentBy(Rank(rank))), 36924456 * 1.5, 4 << 14);
  }
  EXPECT_EQ(sent, 2 * 3 * uint64_t{36924456});
}

TEST(RingSchedule, SentBy_BucketOfBytes_FromItsRootOnce) {
  const RingSchedule schedule = ScheduleOf({600 << 10, v1::DTYPE_BYTES, Rank(2)}, 4);
  EXPECT_EQ(schedule.hops(), 3);
  EXPECT_EQ(schedule.first_mean_hop(), 0);
  for (int hop = 0; hop < 3; ++hop) {
    for (int sender = 0; sender < 4; ++sender) {
      const bool sends = sender == (2 + hop) % 4;
      EXPECT_EQ(schedule.SentBy(Rank(sender), hop).size(), sends ? 2u : 0u) << sender << hop;
    }
  }
  EXPECT_EQ(schedule.BytesSentBy(Rank(1)), 0u);
}

}  // namespace
}  // namespace gradwire
