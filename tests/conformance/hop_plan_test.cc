#include "worker/backends/hops/hop_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/backends/hops/hop_plans.h"

namespace gradwire {
namespace {

constexpr uint64_t kVgg11Bytes = 36924456;

const Topology* const kTopologies[] = {&RingTopology(), &TreeTopology()};

struct CutBucket {
  Segments segments;
  uint64_t bytes = 0;
};

// Both ways to cut buckets of many sizes.
std::vector<CutBucket> ManySegments() {
  std::vector<CutBucket> all;
  for (const int count : {1, 2, 3, 7, 16}) {
    for (const uint64_t bytes : {uint64_t{4}, uint64_t{8}, uint64_t{400}, kVgg11Bytes}) {
      const BucketSpec spec{bytes, v1::DTYPE_FLOAT32};
      all.push_back({Segments::Even(spec, count), bytes});
      all.push_back({Segments::OfFold(Bucket(0), spec, FoldBlocks({spec}, count), count), bytes});
    }
  }
  return all;
}

TEST(SegmentsTest, Of_AnySize_RangesTileTheBucket) {
  for (const auto& [segments, bytes] : ManySegments()) {
    std::map<uint64_t, uint64_t> ends;  // by offset
    uint64_t in_segments = 0;
    for (int segment = 0; segment < segments.count(); ++segment) {
      in_segments += segments.BytesOf(segment);
      for (const HopChunk& hop_chunk : segments.Of(segment)) {
        EXPECT_LE(hop_chunk.bytes, 512u << 10);
        for (const FoldRange& range : hop_chunk.ranges) {
          EXPECT_EQ(range.first_rank, segment);
          EXPECT_EQ(range.bytes % 4, 0u);
          ends[range.offset] = range.offset + range.bytes;
        }
      }
    }
    uint64_t end = 0;
    for (const auto& [offset, to] : ends) {
      EXPECT_EQ(offset, end);
      end = to;
    }
    EXPECT_EQ(end, bytes);
    EXPECT_EQ(in_segments, bytes);
  }
}

TEST(SegmentsTest, Find_WhereAParcelBegins_IsTheParcel) {
  for (const auto& [segments, bytes] : ManySegments()) {
    for (int segment = 0; segment < segments.count(); ++segment) {
      const std::vector<HopChunk>& hop_chunks = segments.Of(segment);
      for (size_t i = 0; i < hop_chunks.size(); ++i) {
        const auto place = segments.Find(hop_chunks[i].ranges.front().offset);
        ASSERT_TRUE(place.has_value());
        EXPECT_EQ(place->segment, segment);
        EXPECT_EQ(place->hop_chunk, i);
        EXPECT_FALSE(segments.Find(hop_chunks[i].ranges.front().offset + 1).has_value());
      }
    }
  }
}

// Which ranks' terms are in a segment, by rank and segment.
using Contents = std::vector<std::vector<std::set<int>>>;

// Plays all hops with sets of ranks in place of sums.
Contents Play(const Topology& topology, v1::Collective collective, int root, int world_size) {
  const Route route = RouteOf(topology, collective, root, world_size);
  Contents contents(world_size);
  for (int rank = 0; rank < world_size; ++rank) contents[rank].assign(route.segments, {rank});
  for (const Hop& hop : route.hops) {
    const std::set<int>& sent = contents[hop.edge.from][hop.segment];
    std::set<int>& got = contents[hop.edge.to][hop.segment];
    if (!hop.adds) got.clear();
    for (const int rank : sent) EXPECT_TRUE(got.insert(rank).second) << "added twice";
    const bool has_all = got.size() == static_cast<size_t>(world_size);
    EXPECT_EQ(hop.completes, hop.adds && has_all);
  }
  return contents;
}

// Calls `body` for each topology, many worlds and all roots.
template <typename Body>
void ForAll(Body body) {
  for (const Topology* topology : kTopologies) {
    for (int world_size : {1, 2, 3, 4, 5, 8, 13, 16}) {
      for (int root = 0; root < world_size; ++root) body(*topology, root, world_size);
    }
  }
}

std::set<int> AllRanks(int world_size) {
  std::set<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.insert(rank);
  return ranks;
}

TEST(HopPlanTest, RouteOf_AllReduce_EveryRankHasEveryTermOnce) {
  ForAll([](const Topology& topology, int root, int world_size) {
    for (const auto& rank : Play(topology, v1::COLLECTIVE_ALL_REDUCE, root, world_size)) {
      for (const auto& segment : rank) EXPECT_EQ(segment, AllRanks(world_size));
    }
  });
}

TEST(HopPlanTest, RouteOf_Reduce_TheRootHasEveryTerm) {
  ForAll([](const Topology& topology, int root, int world_size) {
    const Contents contents = Play(topology, v1::COLLECTIVE_REDUCE, root, world_size);
    EXPECT_EQ(contents[root][0], AllRanks(world_size));
  });
}

TEST(HopPlanTest, RouteOf_ReduceScatter_EachRankHasItsPartOfAll) {
  ForAll([](const Topology& topology, int root, int world_size) {
    const Contents contents = Play(topology, v1::COLLECTIVE_REDUCE_SCATTER, root, world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(contents[rank][rank], AllRanks(world_size));
    }
  });
}

TEST(HopPlanTest, RouteOf_Broadcast_AllHaveTheRoots) {
  ForAll([](const Topology& topology, int root, int world_size) {
    for (const auto& rank : Play(topology, v1::COLLECTIVE_BROADCAST, root, world_size)) {
      EXPECT_EQ(rank[0], std::set<int>{root});
    }
  });
}

TEST(HopPlanTest, RouteOf_SendRecv_TheRankBeforeTheRootHasTheRoots) {
  ForAll([](const Topology& topology, int root, int world_size) {
    const Contents contents = Play(topology, v1::COLLECTIVE_SEND_RECV, root, world_size);
    EXPECT_EQ(contents[(root + world_size - 1) % world_size][0], std::set<int>{root});
  });
}

TEST(HopPlanTest, RouteOf_GatherAndAllGather_EachPartIsItsRanks) {
  ForAll([](const Topology& topology, int root, int world_size) {
    const Contents gathered = Play(topology, v1::COLLECTIVE_GATHER, root, world_size);
    const Contents at_all = Play(topology, v1::COLLECTIVE_ALL_GATHER, root, world_size);
    for (int part = 0; part < world_size; ++part) {
      EXPECT_EQ(gathered[root][part], std::set<int>{part});
      for (const auto& rank : at_all) EXPECT_EQ(rank[part], std::set<int>{part});
    }
  });
}

TEST(HopPlanTest, RouteOf_Scatter_EachRankHasTheRootsPart) {
  ForAll([](const Topology& topology, int root, int world_size) {
    const Contents contents = Play(topology, v1::COLLECTIVE_SCATTER, root, world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      EXPECT_EQ(contents[rank][rank], std::set<int>{root});
    }
  });
}

// The number of a hop is what is on the wire.
TEST(HopPlanTest, RouteOf_RingAllReduce_OnHopHRankRSendsSegmentRMinusH) {
  for (const Hop& hop : RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, 5).hops) {
    EXPECT_EQ(hop.segment, (hop.edge.from - hop.number + 10) % 5);
    EXPECT_EQ(hop.adds, hop.number < 4);
  }
}

TEST(HopPlanTest, RouteOf_RingAllReduce_BytesAreTheRingBound) {
  const BucketSpec spec{kVgg11Bytes, v1::DTYPE_FLOAT32};
  const Segments segments = Segments::OfFold(Bucket(0), spec, FoldBlocks({spec}, 4), 4);
  std::vector<uint64_t> sent(4);
  for (const Hop& hop : RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, 4).hops) {
    sent[hop.edge.from] += segments.BytesOf(hop.segment);
  }
  EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), uint64_t{0}), 2 * 3 * kVgg11Bytes);
  // Shares differ by less than a block.
  for (const uint64_t of_rank : sent) EXPECT_NEAR(of_rank, kVgg11Bytes * 1.5, 4 << 14);
}

// In which order the terms are added at rank 0.
std::string TreeSum(int world_size) {
  std::vector<std::string> sums;
  for (int rank = 0; rank < world_size; ++rank) sums.push_back(absl::StrCat(rank));
  for (const Hop& hop : RouteOf(TreeTopology(), v1::COLLECTIVE_REDUCE, 0, world_size).hops) {
    sums[hop.edge.to] = absl::StrCat("(", sums[hop.edge.to], "+", sums[hop.edge.from], ")");
  }
  return sums[0];
}

TEST(HopPlanTest, RouteOf_TreeReduce_SumsInPairs) {
  EXPECT_EQ(TreeSum(2), "(0+1)");
  EXPECT_EQ(TreeSum(3), "((0+1)+2)");
  EXPECT_EQ(TreeSum(8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(HopPlanTest, RouteOf_Tree_NeighboursDifferInOneBit) {
  ForAll([](const Topology&, int root, int world_size) {
    const Route route = RouteOf(TreeTopology(), v1::COLLECTIVE_BROADCAST, root, world_size);
    for (const Hop& hop : route.hops) {
      const int differ = hop.edge.from ^ hop.edge.to;
      EXPECT_EQ(differ & (differ - 1), 0);
    }
  });
}

TEST(HopPlanTest, Plan_TreeRoot_SendsOnceTheLastChildIsIn) {
  const HopPlan plan(RouteOf(TreeTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, 4), {Rank(0)});
  const std::vector<RankPlan::Receive>& receives = plan.ranks.at(Rank(0)).receives;
  ASSERT_EQ(receives.size(), 2u);
  EXPECT_EQ(receives[0].from, Rank(1));
  EXPECT_EQ(receives[0].before, -1);
  EXPECT_TRUE(receives[0].sends.empty());
  EXPECT_EQ(receives[1].from, Rank(2));
  EXPECT_EQ(receives[1].before, 0);
  EXPECT_TRUE(receives[1].hop.completes);
  EXPECT_EQ(receives[1].sends.size(), 2u);
}

TEST(HopPlanTest, Plan_RingRank_PassesOnAllButTheLastHop) {
  const HopPlan plan(RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, 4), {Rank(1)});
  const RankPlan& rank = plan.ranks.at(Rank(1));
  ASSERT_EQ(rank.receives.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rank.receives[i].sends.size(), i < 5 ? 1u : 0u) << i;
  EXPECT_TRUE(rank.own_segments.empty());
}

}  // namespace
}  // namespace gradwire
