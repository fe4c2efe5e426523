#include "coordinator/membership/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace gradwire {
namespace {

using ::testing::ElementsAre;

Wish Wants(std::initializer_list<int> ranks) {
  Wish wish;
  for (int rank : ranks) wish.emplace_back(rank);
  return wish;
}

TEST(Assign, AsManyWorkersAsRanks_EachGetsTheRankOfItsPlace) {
  EXPECT_THAT(*Assign({{}, {}, {}}, 3), ElementsAre(Wants({0}), Wants({1}), Wants({2})));
}

TEST(Assign, FewerWorkers_GetContiguousRanks) {
  EXPECT_THAT(*Assign({{}, {}}, 5), ElementsAre(Wants({0, 1, 2}), Wants({3, 4})));
}

TEST(Assign, UnevenWish_IsGranted) {
  EXPECT_THAT(*Assign({Wants({3, 0, 1}), {}}, 4), ElementsAre(Wants({0, 1, 3}), Wants({2})));
}

TEST(Assign, SomeWishes_TheRestIsDealtToTheOthers) {
  EXPECT_THAT(*Assign({{}, Wants({2}), {}, {}}, 6),
              ElementsAre(Wants({0, 1}), Wants({2}), Wants({3, 4}), Wants({5})));
}

TEST(Assign, RanksThatNobodyWouldCarry_AreNamed) {
  EXPECT_EQ(Assign({Wants({0}), Wants({2})}, 4).status(),
            absl::InvalidArgumentError(
                "ranks 1, 3 would be carried by no worker: got other ranks for all of 2 workers, "
                "expected that they carry all ranks together"));
}

TEST(Assign, NothingLeftForAWorker_IsRefused) {
  EXPECT_EQ(Assign({Wants({0, 1, 2}), {}, {}}, 4).status(),
            absl::InvalidArgumentError("ranks: 1 would be left for 2 of 3 workers, expected at "
                                       "least one for each"));
}

// World size and wishes: ranks are dealt at random to wishes, or stay unwanted.
struct Run {
  int world_size;
  std::vector<Wish> wishes;
};

Run AnyRun() {
  const int world_size = *rc::gen::inRange(1, 40);
  const int workers = *rc::gen::inRange(1, world_size + 1);
  std::vector<Wish> wishes(workers);
  for (int rank = 0; rank < world_size; ++rank) {
    const int worker = *rc::gen::inRange(0, 3 * workers);
    if (worker < workers) wishes[worker].emplace_back(rank);
  }
  return {world_size, wishes};
}

RC_GTEST_PROP(AssignProperty, AnyWishes_EveryRankOnceAndEveryWorkerOne, ()) {
  const Run run = AnyRun();
  const auto ranks = Assign(run.wishes, run.world_size);
  RC_PRE(ranks.ok());
  std::set<Rank> carried;
  for (size_t worker = 0; worker < ranks->size(); ++worker) {
    const std::vector<Rank>& own = (*ranks)[worker];
    RC_ASSERT(!own.empty());
    RC_ASSERT(std::is_sorted(own.begin(), own.end()));
    for (Rank rank : own) RC_ASSERT(carried.insert(rank).second);
    if (!run.wishes[worker].empty()) RC_ASSERT(own == run.wishes[worker]);
  }
  RC_ASSERT(static_cast<int>(carried.size()) == run.world_size);
  RC_ASSERT(carried.begin()->value() == 0);
  RC_ASSERT(carried.rbegin()->value() == run.world_size - 1);
}

RC_GTEST_PROP(AssignProperty, NoWishes_ContiguousAndEven, ()) {
  const int world_size = *rc::gen::inRange(1, 100);
  const int workers = *rc::gen::inRange(1, world_size + 1);
  const auto ranks = Assign(std::vector<Wish>(workers), world_size);
  int next = 0;
  for (const std::vector<Rank>& own : *ranks) {
    for (Rank rank : own) RC_ASSERT(rank.value() == next++);
    const int count = static_cast<int>(own.size());
    RC_ASSERT(count == world_size / workers || count == (world_size + workers - 1) / workers);
  }
  RC_ASSERT(next == world_size);
}

// Whom the roster has let in can always stay: see Roster::Deal.
RC_GTEST_PROP(AssignProperty, AWishIsGivenUp_ADealStillExists, ()) {
  Run run = AnyRun();
  RC_PRE(Assign(run.wishes, run.world_size).ok());
  run.wishes[*rc::gen::inRange<size_t>(0, run.wishes.size())].clear();
  RC_ASSERT(Assign(run.wishes, run.world_size).ok());
}

using Ranks = std::vector<Rank>;

TEST(Adopt, OneOrphan_GoesToTheNeighbourBehindIt) {
  Ranks a = Wants({0}), b = Wants({2}), c = Wants({3});
  std::vector<Ranks*> carried = {&a, &b, &c};
  Adopt(Wants({1}), 4, &carried);
  EXPECT_THAT(b, ElementsAre(Rank(1), Rank(2)));
}

TEST(Adopt, HighestRank_GoesRoundTheRing) {
  Ranks a = Wants({0}), b = Wants({1}), c = Wants({2});
  std::vector<Ranks*> carried = {&a, &b, &c};
  Adopt(Wants({3}), 4, &carried);
  EXPECT_THAT(a, ElementsAre(Rank(0), Rank(3)));
}

TEST(Adopt, WhoCarriesLess_TakesItThoughItIsFarther) {
  Ranks a = Wants({0}), b = Wants({2, 3});
  std::vector<Ranks*> carried = {&a, &b};
  Adopt(Wants({1}), 4, &carried);
  EXPECT_THAT(a, ElementsAre(Rank(0), Rank(1)));
}

RC_GTEST_PROP(Adopt, AnyOrphans_AreCarriedOnceAndEvenly, ()) {
  const int world_size = *rc::gen::inRange(2, 20);
  const int takers = *rc::gen::inRange(1, world_size);
  std::vector<Ranks> ranks(takers);
  Ranks orphans;
  for (Rank rank(0); rank.value() < world_size; ++rank) {
    // Each taker has one to begin with.
    rank.value() < takers ? ranks[rank.value()].push_back(rank) : orphans.push_back(rank);
  }
  std::vector<Ranks*> carried;
  for (Ranks& own : ranks) carried.push_back(&own);
  Adopt(orphans, world_size, &carried);
  std::set<Rank> seen;
  for (const Ranks& own : ranks) {
    RC_ASSERT(std::is_sorted(own.begin(), own.end()));
    RC_ASSERT(static_cast<int>(own.size()) <= (world_size + takers - 1) / takers);
    seen.insert(own.begin(), own.end());
  }
  RC_ASSERT(static_cast<int>(seen.size()) == world_size);
}

}  // namespace
}  // namespace gradwire
