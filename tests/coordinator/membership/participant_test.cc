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

TEST(WorkerOf, Hello_AllOfItIsTaken) {
  v1::Hello hello;
  hello.set_incarnation(7);
  hello.set_address("10.10.1.3:4711");
  hello.set_metrics("10.10.1.3:9400");
  hello.set_threads(2);
  hello.set_cores(8);
  hello.set_host("node1");
  hello.set_memory("node1 4026531839");
  hello.mutable_memory_limits()->set_file(1);
  hello.mutable_memory_limits()->set_address(2);
  hello.mutable_memory_limits()->set_group(3);
  hello.mutable_memory_limits()->set_host(4);
  hello.set_cannot_recover("gloo has no second view");
  hello.set_pid(4712);
  hello.add_ranks(5);
  (*hello.mutable_environment())["blas"] = "OpenBLAS";
  const Participant worker = WorkerOf(SessionId(3), hello, absl::FromUnixSeconds(1000));
  EXPECT_EQ(worker.session, SessionId(3));
  EXPECT_EQ(worker.incarnation, Incarnation(7));
  EXPECT_EQ(worker.address, "10.10.1.3:4711");
  EXPECT_EQ(worker.metrics, "10.10.1.3:9400");
  EXPECT_EQ(worker.last_heard, absl::FromUnixSeconds(1000));
  EXPECT_EQ(worker.wish, Wish{Rank(5)});
  EXPECT_EQ(worker.threads, 2);
  EXPECT_EQ(worker.cores, 8);
  EXPECT_EQ(worker.host, "node1");
  EXPECT_EQ(worker.memory, "node1 4026531839");
  EXPECT_EQ(worker.limits.file, 1u);
  EXPECT_EQ(worker.limits.address, 2u);
  EXPECT_EQ(worker.limits.group, 3u);
  EXPECT_EQ(worker.limits.host, 4u);
  EXPECT_EQ(worker.cannot_recover, "gloo has no second view");
  EXPECT_EQ(worker.pid, 4712u);
  EXPECT_EQ(worker.environment.at("blas"), "OpenBLAS");
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
