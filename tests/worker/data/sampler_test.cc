#include "worker/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  int64_t samples;
  int64_t epoch;
  int rank;
  SamplerOptions options;
};

std::vector<Case> OracleCases() {
  std::vector<Case> cases;
  for (const int64_t samples : {1, 2, 3, 7, 10, 256, 1000, 50000}) {
    for (const int world_size : {1, 2, 3, 4, 7, 16}) {
      for (const bool drop_last : {false, true}) {
        if (drop_last && samples < world_size) continue;  // leaves nothing: refused here
        for (const bool shuffle : {false, true}) {
          const int rank = static_cast<int>(cases.size()) % world_size;
          const uint64_t seed = cases.size() % 3 == 0 ? 744 : cases.size() % 2;
          const int64_t epoch = static_cast<int64_t>(cases.size()) % 4;
          cases.push_back({samples, epoch, rank, {world_size, shuffle, seed, drop_last}});
        }
      }
    }
  }
  // A seed whose sum with the epoch needs more than 32 bits.
  cases.push_back({100, 3, 1, {4, true, 0xffffffffu, false}});
  cases.push_back({100, 0, 0, {1, true, 0x123456789abcdefu, false}});
  return cases;
}

std::string ToJson(const std::vector<Case>& cases) {
  nlohmann::json all = nlohmann::json::array();
  for (const Case& c : cases) {
    all.push_back({{"samples", c.samples},
                   {"world_size", c.options.world_size},
                   {"rank", c.rank},
                   {"shuffle", c.options.shuffle},
                   {"seed", c.options.seed},
                   {"drop_last", c.options.drop_last},
                   {"epoch", c.epoch}});
  }
  return all.dump();
}

Sampler MakeSampler(int64_t samples, const SamplerOptions& options) {
  return Sampler::Create(samples, options).value();
}

TEST(Sampler, Indices_ManyCases_EqualDistributedSampler) {
  testing::TempDir dir;
  const std::vector<Case> cases = OracleCases();
  testing::WriteFile(dir.File("cases.json"), ToJson(cases));
  const auto expected = testing::AskOracle("sampler.py", {dir.File("cases.json")});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(expected->size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Sampler sampler = MakeSampler(c.samples, c.options);
    const std::vector<int64_t> got = sampler.Indices(c.epoch, Rank(c.rank)).value();
    EXPECT_TRUE(got == (*expected)[i].get<std::vector<int64_t>>())
        << ToJson({c}) << " begins with " << (got.empty() ? -1 : got[0]);
  }
}

TEST(Sampler, Indices_TwoEpochs_TwoOrdersOnlyIfTheEpochIsSet) {
  SamplerOptions options = {2, true, 5, false};
  const Sampler set = MakeSampler(100, options);
  EXPECT_NE(set.Indices(1, Rank(1)).value(), set.Indices(0, Rank(1)).value());
  options.set_epoch = false;
  const Sampler not_set = MakeSampler(100, options);
  EXPECT_EQ(not_set.Indices(1, Rank(1)).value(), set.Indices(0, Rank(1)).value());
}

TEST(Sampler, Indices_MorePaddingThanSamples_RepeatsAllOfThem) {
  const Sampler sampler = MakeSampler(2, {7, false, 0, false});
  std::vector<int64_t> dealt;
  for (int r = 0; r < 7; ++r) dealt.push_back(sampler.Indices(0, Rank(r)).value().at(0));
  EXPECT_THAT(dealt, ElementsAre(0, 1, 0, 1, 0, 1, 0));
  EXPECT_EQ(sampler.padded(), 5);
}

TEST(Sampler, Indices_NextEpoch_OtherOrder) {
  const Sampler sampler = MakeSampler(100, {});
  EXPECT_NE(sampler.Indices(0, Rank(0)).value(), sampler.Indices(1, Rank(0)).value());
}

TEST(Sampler, Indices_NoSuchRank_InvalidArgument) {
  const Sampler sampler = MakeSampler(100, {4, true, 0, false});
  for (const int rank : {-1, 4}) {
    const absl::Status status = sampler.Indices(0, Rank(rank)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(status.message(), absl::StrCat("rank ", rank, ", expected 0 to 3"));
  }
}

TEST(Sampler, PaddedAmong_AllRanks_SumIsPadded) {
  for (const auto& [samples, world_size] : {std::pair{256, 3}, {2, 7}, {5, 5}, {10, 4}}) {
    const Sampler sampler = MakeSampler(samples, {world_size, true, 0, false});
    int64_t sum = 0;
    for (int r = 0; r < world_size; ++r) {
      for (int64_t i = 0; i < sampler.per_rank(); ++i) sum += sampler.PaddedAmong(Rank(r), i, 1);
    }
    EXPECT_EQ(sum, sampler.padded()) << samples << " over " << world_size;
  }
}

TEST(Sampler, PaddedAmong_RangeOverTheEnd_CountsItsTail) {
  const Sampler sampler = MakeSampler(10, {4, true, 0, false});  // ranks 2 and 3: one repeat each
  EXPECT_EQ(sampler.PaddedAmong(Rank(1), 0, 3), 0);
  EXPECT_EQ(sampler.PaddedAmong(Rank(2), 0, 3), 1);
  EXPECT_EQ(sampler.PaddedAmong(Rank(2), 0, 2), 0);
}

TEST(Sampler, Describe_Padded_SaysHowMany) {
  EXPECT_EQ(MakeSampler(256, {3, true, 0, false}).Describe(),
            "256/3: 86 each, total 258, 2 padded");
}

TEST(Sampler, Describe_DropLast_SaysHowMany) {
  EXPECT_EQ(MakeSampler(256, {3, true, 0, true}).Describe(),
            "256/3: 85 each, total 255, 1 dropped");
}

TEST(Sampler, Describe_EvenShares_SaysNoMore) {
  EXPECT_EQ(MakeSampler(256, {4, true, 0, false}).Describe(), "256/4: 64 each, total 256");
}

TEST(Sampler, Create_NoSamples_InvalidArgument) {
  const absl::Status status = Sampler::Create(0, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "0 samples, expected 1 to 4294967295");
}

TEST(Sampler, Create_TooManySamples_InvalidArgument) {
  const absl::Status status = Sampler::Create(int64_t{1} << 32, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("4294967296 samples"));
}

TEST(Sampler, Create_NoRanks_InvalidArgument) {
  const absl::Status status = Sampler::Create(10, {0, true, 0, false}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "world size 0, expected 1 or more");
}

TEST(Sampler, Create_DropLastLeavesNothing_InvalidArgument) {
  const absl::Status status = Sampler::Create(3, {4, true, 0, true}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "3 samples for 4 ranks: without the tail no rank has a sample");
}

}  // namespace
}  // namespace gradwire
