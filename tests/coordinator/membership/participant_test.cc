#include "coordinator/membership/participant.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

// A worker on a host of so many cores that carries so many ranks.
Participant On(const std::string& host, int cores, int ranks, int threads = 0) {
  Participant worker;
  worker.host = host;
  worker.cores = cores;
  worker.ranks.resize(ranks);
  worker.threads = threads;
  return worker;
}

TEST(ThreadsFor, OneHost_SharesItsCoresAmongAllItsRanks) {
  const Participant a = On("a", 12, 1), b = On("a", 12, 3);
  EXPECT_EQ(ThreadsFor({&a, &b}), 3);
}

TEST(ThreadsFor, SeveralHosts_IsWhatAllCanGive) {
  const Participant a = On("a", 16, 1), b = On("b", 6, 2);
  EXPECT_EQ(ThreadsFor({&a, &b}), 3);
}

TEST(ThreadsFor, MoreRanksThanCores_IsOne) {
  const Participant a = On("a", 2, 3);
  EXPECT_EQ(ThreadsFor({&a}), 1);
}

TEST(ThreadsFor, SomeWereTold_IsThatNumber) {
  const Participant a = On("a", 2, 3), b = On("b", 2, 1, 5);
  EXPECT_EQ(ThreadsFor({&a, &b}), 5);
}

TEST(Describe, Participants_AreNamedByWhatTheyCarry) {
  Participant member;
  member.address = "10.10.1.3:4711";
  member.ranks = {Rank(0), Rank(1)};
  EXPECT_EQ(Describe(member), "ranks 0, 1 (10.10.1.3:4711)");
  member.ranks.pop_back();
  EXPECT_EQ(Describe(member), "rank 0 (10.10.1.3:4711)");
  member.ranks.clear();
  member.share = 2;
  EXPECT_EQ(Describe(member), "aggregator 2 (10.10.1.3:4711)");
}

}  // namespace
}  // namespace gradwire
