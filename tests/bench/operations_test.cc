#include "bench/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/rank/rank_options.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(Operations, Names_AreOfOneOperationEach) {
  const std::vector<std::string> names = OperationNames();
  std::set<v1::Collective> collectives;
  for (const std::string& name : names) {
    EXPECT_EQ(OperationCalled(name).name, name);
    collectives.insert(OperationCalled(name).collective);
  }
  EXPECT_EQ(collectives.size(), names.size());
  EXPECT_EQ(collectives.count(v1::COLLECTIVE_UNSPECIFIED), 0);
}

TEST(Operations, BucketOf_SumsAreFloats_OthersBytesOfTheRoot) {
  EXPECT_EQ(OperationCalled("reduce").BucketOf(64),
            (BucketSpec{64, v1::DTYPE_FLOAT32, Rank(0), v1::COLLECTIVE_REDUCE}));
  EXPECT_EQ(OperationCalled("gather").BucketOf(64),
            (BucketSpec{64, v1::DTYPE_BYTES, Rank(0), v1::COLLECTIVE_GATHER}));
}

TEST(Operations, Has_BackEndsOfTwoOperations_NoOther) {
  for (const Operation& operation : Operations()) {
    EXPECT_TRUE(Has("ring", operation)) << operation.name;
    EXPECT_EQ(Has("sharded", operation),
              operation.name == "all-reduce" || operation.name == "broadcast");
    EXPECT_EQ(PeerHas(operation), operation.name != "reduce-scatter");
  }
}

TEST(Operations, BusFactor_FourRanks_IsThatOfNcclTests) {
  const std::vector<std::pair<std::string, double>> factors = {
      {"send-recv", 1}, {"broadcast", 1},     {"scatter", 0.75},        {"gather", 0.75},
      {"reduce", 1},    {"all-gather", 0.75}, {"reduce-scatter", 0.75}, {"all-reduce", 1.5}};
  for (const auto& [name, factor] : factors) {
    EXPECT_EQ(BusFactor(OperationCalled(name), 4), factor) << name;
    EXPECT_EQ(BusFactor(OperationCalled(name), 1), 0) << name;
  }
}

TEST(Operations, SizeFor_InParts_IsTheNextThatCanBeCut) {
  const Operation& gather = OperationCalled("gather");
  EXPECT_EQ(SizeFor(gather, 4, 3), 12);
  EXPECT_EQ(SizeFor(gather, 12, 3), 12);
  EXPECT_EQ(SizeFor(gather, 13, 3), 24);
  EXPECT_EQ(SizeFor(OperationCalled("all-reduce"), 4, 3), 4);
}

std::string ErrorOf(const std::vector<std::string>& args) {
  return std::string(ParseRankOptions(args).status().message());
}

TEST(RankOptions, Nothing_KeepsTheDefaults) {
  const absl::StatusOr<Parsed<RankOptions>> parsed = ParseRankOptions({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.op, "all-reduce");
  EXPECT_EQ(parsed->options.iterations, 50);
  EXPECT_EQ(parsed->options.world_size, 1);
}

TEST(RankOptions, AllOptions_AreTaken) {
  const std::vector<std::string> args = {"--coordinator=a:1", "--rank=2",    "--world-size=3",
                                         "--backend=tree",    "--wire=bf16", "--op=gather",
                                         "--bytes=24",        "--warmup=1",  "--iterations=7",
                                         "--seconds=.5",      "--show=true", "--timeout-seconds=9"};
  const absl::StatusOr<Parsed<RankOptions>> parsed = ParseRankOptions(args);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const RankOptions& options = parsed->options;
  EXPECT_EQ(options.coordinator, "a:1");
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.backend, "tree");
  EXPECT_EQ(options.wire, "bf16");
  EXPECT_EQ(options.bytes, 24);
  EXPECT_EQ(options.warmup, 1);
  EXPECT_EQ(options.iterations, 7);
  EXPECT_EQ(options.seconds, 0.5);
  EXPECT_EQ(options.timeout_seconds, 9);
  EXPECT_TRUE(options.show);
}

TEST(RankOptions, BackEndWithoutTheOperation_IsRefused) {
  EXPECT_EQ(ErrorOf({"--backend", "sharded", "--op", "gather"}),
            "--op: back end sharded has no gather");
}

TEST(RankOptions, SizeThatCannotBeCut_IsRefusedWithItsUnit) {
  EXPECT_EQ(ErrorOf({"--bytes", "6"}), "--bytes: got '6', expected a multiple of 4");
  EXPECT_EQ(ErrorOf({"--op", "gather", "--world-size", "3", "--bytes", "16"}),
            "--bytes: got '16', expected a multiple of 12");
}

// Four times that many is no int.
TEST(RankOptions, WorldTooLargeForTheSize_IsRefused) {
  EXPECT_EQ(ErrorOf({"--op", "gather", "--world-size", "1073741824", "--bytes", "16"}),
            "--bytes: got '16', expected a multiple of 4294967296");
}

TEST(RankOptions, RankBeyondTheWorld_IsRefused) {
  EXPECT_EQ(ErrorOf({"--rank", "2", "--world-size", "2"}),
            "--rank: got '2', expected one below the world size, 2");
}

TEST(RankOptions, NumbersOutOfBounds_AreRefused) {
  for (const char* option :
       {"--rank=-1", "--world-size=0", "--bytes=3", "--warmup=0", "--iterations=0", "--seconds=-1",
        "--seconds=nan", "--timeout-seconds=0", "--op=sum", "--wire=fp8", "--coordinator=a"}) {
    EXPECT_THAT(ErrorOf({option}), HasSubstr("expected")) << option;
  }
}

}  // namespace
}  // namespace gradwire
