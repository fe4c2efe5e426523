#include "worker/backends/hops/hop_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"
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

// The ranks of each worker, by host.
using Hosts = std::vector<std::vector<std::vector<int>>>;

Places PlacesOf(const Hosts& hosts) {
  View view;
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const std::vector<int>& ranks : hosts[host]) {
      const int port = 1000 + static_cast<int>(view.members.size());
      view.members.push_back({MakeIncarnation(), absl::StrCat("[fd00::", host, "]:", port), {}});
      for (const int rank : ranks) view.members.back().ranks.emplace_back(rank);
      view.world_size += static_cast<int>(ranks.size());
    }
  }
  return Places(view);
}

// Hosts with `each` consecutive ranks.
Places Consecutive(int hosts, int each) {
  Hosts dealt(static_cast<size_t>(hosts));
  for (int rank = 0; rank < hosts * each; ++rank) {
    dealt[static_cast<size_t>(rank / each)].push_back({rank});
  }
  return PlacesOf(dealt);
}

// With one rank each, with several workers on a host, in the order of ranks or not, and with
// several ranks on a worker, as after a loss.
std::vector<Places> ManyPlaces() {
  std::vector<Places> all;
  for (const int world_size : {1, 2, 3, 4, 5, 8, 13, 16}) all.emplace_back(world_size);
  for (const int each : {2, 3, 4}) all.push_back(Consecutive(2, each));
  for (const Hosts& hosts :
       {Hosts{{{0}, {1}, {2}}}, Hosts{{{0}, {1}, {2}}, {{3}}}, Hosts{{{0}}, {{1}, {2}, {3}}},
        Hosts{{{0}, {2}}, {{1}, {3}}}, Hosts{{{0}, {3}}, {{1}, {2}}, {{4}, {6}}, {{5}}},
        Hosts{{{0, 1}, {2}}, {{3}}}, Hosts{{{0, 2}, {1}}, {{3}}}, Hosts{{{0, 3}}, {{1, 2, 4}}},
        Hosts{{{0, 5}, {1, 3}}, {{2}, {4, 7}}, {{6}}}}) {
    all.push_back(PlacesOf(hosts));
  }
  return all;
}

TEST(PlacesTest, OfView_AddressesThatDifferInThePortOnly_AreOneHost) {
  View view;
  view.world_size = 4;
  view.members = {{MakeIncarnation(), "10.0.0.1:29400", {Rank(0), Rank(2)}},
                  {MakeIncarnation(), "10.0.0.11:29400", {Rank(1)}},
                  {MakeIncarnation(), "10.0.0.1:29401", {Rank(3)}}};
  const Places places(view);
  EXPECT_EQ(places.world_size(), 4);
  EXPECT_EQ(places.WorkerOf(0), places.WorkerOf(2));
  EXPECT_NE(places.WorkerOf(0), places.WorkerOf(3));
  EXPECT_EQ(places.HostOf(0), places.HostOf(3));
  EXPECT_NE(places.HostOf(0), places.HostOf(1));
}

// Plays all hops with sets of ranks in place of sums.
Contents Play(const Topology& topology, v1::Collective collective, int root, const Places& places) {
  const int world_size = places.world_size();
  const Route route = RouteOf(topology, collective, root, places);
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

// Calls `body` for each topology, many places and all roots.
template <typename Body>
void ForAll(Body body) {
  for (const Topology* topology : kTopologies) {
    for (const Places& places : ManyPlaces()) {
      for (int root = 0; root < places.world_size(); ++root) body(*topology, root, places);
    }
  }
}

std::set<int> AllRanks(int world_size) {
  std::set<int> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.insert(rank);
  return ranks;
}

TEST(HopPlanTest, RouteOf_AllReduce_EveryRankHasEveryTermOnce) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    for (const auto& rank : Play(topology, v1::COLLECTIVE_ALL_REDUCE, root, places)) {
      for (const auto& segment : rank) EXPECT_EQ(segment, AllRanks(places.world_size()));
    }
  });
}

TEST(HopPlanTest, RouteOf_Reduce_TheRootHasEveryTerm) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const Contents contents = Play(topology, v1::COLLECTIVE_REDUCE, root, places);
    EXPECT_EQ(contents[root][0], AllRanks(places.world_size()));
  });
}

TEST(HopPlanTest, RouteOf_ReduceScatter_EachRankHasItsPartOfAll) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const Contents contents = Play(topology, v1::COLLECTIVE_REDUCE_SCATTER, root, places);
    for (int rank = 0; rank < places.world_size(); ++rank) {
      EXPECT_EQ(contents[rank][rank], AllRanks(places.world_size()));
    }
  });
}

TEST(HopPlanTest, RouteOf_Broadcast_AllHaveTheRoots) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    for (const auto& rank : Play(topology, v1::COLLECTIVE_BROADCAST, root, places)) {
      EXPECT_EQ(rank[0], std::set<int>{root});
    }
  });
}

TEST(HopPlanTest, RouteOf_SendRecv_TheRankBeforeTheRootHasTheRoots) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const Contents contents = Play(topology, v1::COLLECTIVE_SEND_RECV, root, places);
    EXPECT_EQ(contents[(root + places.world_size() - 1) % places.world_size()][0],
              std::set<int>{root});
  });
}

TEST(HopPlanTest, RouteOf_GatherAndAllGather_EachPartIsItsRanks) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const Contents gathered = Play(topology, v1::COLLECTIVE_GATHER, root, places);
    const Contents at_all = Play(topology, v1::COLLECTIVE_ALL_GATHER, root, places);
    for (int part = 0; part < places.world_size(); ++part) {
      EXPECT_EQ(gathered[root][part], std::set<int>{part});
      for (const auto& rank : at_all) EXPECT_EQ(rank[part], std::set<int>{part});
    }
  });
}

TEST(HopPlanTest, RouteOf_Scatter_EachRankHasTheRootsPart) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const Contents contents = Play(topology, v1::COLLECTIVE_SCATTER, root, places);
    for (int rank = 0; rank < places.world_size(); ++rank) {
      EXPECT_EQ(contents[rank][rank], std::set<int>{root});
    }
  });
}

// The number of a hop is what is on the wire.
TEST(HopPlanTest, RouteOf_RingAllReduce_HopHBringsRankRTheSegmentBefore) {
  for (const Places& places : ManyPlaces()) {
    const int world_size = places.world_size();
    for (const Hop& hop : RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, places).hops) {
      EXPECT_EQ(hop.segment, (hop.edge.to - hop.number - 1 + 2 * world_size) % world_size);
      EXPECT_EQ(hop.adds, hop.number < world_size - 1);
    }
  }
}

// The fold: nothing about hosts changes the order of the sums.
TEST(HopPlanTest, RouteOf_RingAllReduce_SumsAreInRankOrderWhereverRanksAre) {
  for (const Places& places : ManyPlaces()) {
    for (const Hop& hop : RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, places).hops) {
      if (!hop.adds) continue;
      EXPECT_EQ(hop.edge.from, (hop.segment + hop.number) % places.world_size());
      EXPECT_EQ(hop.edge.to, (hop.edge.from + 1) % places.world_size());
    }
  }
}

// Links between two places of a kind, as the hops of a broadcast use them.
template <typename PlaceOf>
int Crossings(const Route& route, PlaceOf place_of) {
  int crossings = 0;
  for (const Hop& hop : route.hops) {
    crossings += place_of(hop.edge.from) != place_of(hop.edge.to) ? 1 : 0;
  }
  return crossings;
}

template <typename PlaceOf>
int CountPlaces(int world_size, PlaceOf place_of) {
  std::set<int> places;
  for (int rank = 0; rank < world_size; ++rank) places.insert(place_of(rank));
  return static_cast<int>(places.size());
}

TEST(HopPlanTest, RouteOf_RingBroadcast_EntersEachHostAndEachWorkerOnce) {
  for (const Places& places : ManyPlaces()) {
    const auto host_of = [&](int rank) { return places.HostOf(rank); };
    const auto worker_of = [&](int rank) { return places.WorkerOf(rank); };
    for (int root = 0; root < places.world_size(); ++root) {
      const Route route = RouteOf(RingTopology(), v1::COLLECTIVE_BROADCAST, root, places);
      EXPECT_EQ(Crossings(route, host_of), CountPlaces(places.world_size(), host_of) - 1);
      EXPECT_EQ(Crossings(route, worker_of), CountPlaces(places.world_size(), worker_of) - 1);
    }
  }
}

// All workers connect along these links before they know what they exchange.
TEST(HopPlanTest, LinksOf_HaveEveryHopOfEveryCollective) {
  ForAll([](const Topology& topology, int root, const Places& places) {
    const std::set<Edge> links = LinksOf(topology, places);
    for (int i = v1::Collective_MIN; i <= v1::Collective_MAX; ++i) {
      const auto collective = static_cast<v1::Collective>(i);
      for (const Hop& hop : RouteOf(topology, collective, root, places).hops) {
        EXPECT_EQ(links.count(hop.edge), 1u) << hop.edge.from << " to " << hop.edge.to;
      }
    }
  });
}

TEST(HopPlanTest, LinksOf_RingWithoutSharedHosts_AreTheRing) {
  EXPECT_EQ(LinksOf(RingTopology(), Places(4)).size(), 4u);
  // And from the last rank of each host to its first.
  EXPECT_EQ(LinksOf(RingTopology(), Consecutive(2, 3)).size(), 8u);
}

// Bytes that each host sends to others in an average.
std::map<int, uint64_t> SentByHosts(const Places& places, uint64_t bytes) {
  const BucketSpec spec{bytes, v1::DTYPE_FLOAT32};
  const Segments segments = Segments::OfFold(
      Bucket(0), spec, FoldBlocks({spec}, places.world_size()), places.world_size());
  std::map<int, uint64_t> sent;
  for (const Hop& hop : RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, places).hops) {
    const int host = places.HostOf(hop.edge.from);
    if (places.HostOf(hop.edge.to) != host) sent[host] += segments.BytesOf(hop.segment);
  }
  return sent;
}

TEST(HopPlanTest, RouteOf_RingAllReduce_BytesAreTheRingBound) {
  const std::map<int, uint64_t> sent = SentByHosts(Places(4), kVgg11Bytes);
  ASSERT_EQ(sent.size(), 4u);
  uint64_t total = 0;
  for (const auto& [host, bytes] : sent) total += bytes;
  EXPECT_EQ(total, 2 * 3 * kVgg11Bytes);
  // Shares differ by less than a block.
  for (const auto& [host, bytes] : sent) EXPECT_NEAR(bytes, kVgg11Bytes * 1.5, 4 << 14);
}

// H hosts with m workers: (2H - 1 - 1/m) / H.
TEST(HopPlanTest, RouteOf_RingAllReduceOnSharedHosts_MeansEnterEachHostOnce) {
  const struct {
    int hosts, each;
    double expected;
  } cases[] = {{2, 2, 1.25}, {2, 4, 1.375}, {3, 2, 1.5}, {4, 1, 1.5}, {1, 4, 0}};
  for (const auto& c : cases) {
    for (const auto& [host, bytes] : SentByHosts(Consecutive(c.hosts, c.each), kVgg11Bytes)) {
      EXPECT_NEAR(bytes, kVgg11Bytes * c.expected, 4 << 15) << c.hosts << " x " << c.each;
    }
  }
}

// In which order the terms are added at rank 0.
std::string TreeSum(int world_size) {
  std::vector<std::string> sums;
  for (int rank = 0; rank < world_size; ++rank) sums.push_back(absl::StrCat(rank));
  for (const Hop& hop :
       RouteOf(TreeTopology(), v1::COLLECTIVE_REDUCE, 0, Places(world_size)).hops) {
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
  ForAll([](const Topology&, int root, const Places& places) {
    const Route route = RouteOf(TreeTopology(), v1::COLLECTIVE_BROADCAST, root, places);
    for (const Hop& hop : route.hops) {
      const int differ = hop.edge.from ^ hop.edge.to;
      EXPECT_EQ(differ & (differ - 1), 0);
    }
  });
}

TEST(HopPlanTest, Plan_TreeRoot_SendsOnceTheLastChildIsIn) {
  const HopPlan plan(RouteOf(TreeTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, Places(4)), {Rank(0)});
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
  const HopPlan plan(RouteOf(RingTopology(), v1::COLLECTIVE_ALL_REDUCE, 0, Places(4)), {Rank(1)});
  const RankPlan& rank = plan.ranks.at(Rank(1));
  ASSERT_EQ(rank.receives.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rank.receives[i].sends.size(), i < 5 ? 1u : 0u) << i;
  EXPECT_TRUE(rank.own_segments.empty());
}

}  // namespace
}  // namespace gradwire
