#include <gmock/gmock.h>
#include <gradwire/ddp.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using ::testing::ElementsAre;

std::vector<size_t> Pass(DistributedSampler& sampler, size_t batch_size = 7) {
  std::vector<size_t> indices;
  sampler.reset();
  while (const auto batch = sampler.next(batch_size)) {
    indices.insert(indices.end(), batch->begin(), batch->end());
  }
  return indices;
}

// Two passes without set_epoch, then one of epoch 3.
TEST(DistributedSampler, Passes_ManyCases_EqualPythons) {
  nlohmann::json cases = nlohmann::json::array();
  std::vector<std::vector<size_t>> got;
  for (const size_t size : {10u, 101u}) {
    for (const bool shuffle : {false, true}) {
      for (const bool drop_last : {false, true}) {
        for (int rank = 0; rank < 3; ++rank) {
          DistributedSampler sampler(size, rank, 3, {shuffle, 5, drop_last});
          for (const int epoch : {0, 0, 3}) {
            sampler.set_epoch(epoch);
            got.push_back(Pass(sampler));
            cases.push_back({{"samples", size},
                             {"world_size", 3},
                             {"rank", rank},
                             {"shuffle", shuffle},
                             {"seed", 5},
                             {"drop_last", drop_last},
                             {"epoch", epoch}});
          }
        }
      }
    }
  }
  TempDir dir;
  WriteFile(dir.File("cases.json"), cases.dump());
  const auto expected = AskOracle("sampler.py", {dir.File("cases.json")});
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_TRUE(*expected == nlohmann::json(got)) << *expected;
}

TEST(DistributedSampler, SetEpoch_OfACopy_TellsTheOther) {
  DistributedSampler mine(100, 0, 2);
  DistributedSampler loaders = mine;
  const auto first = Pass(loaders);
  mine.set_epoch(1);
  EXPECT_NE(Pass(loaders), first);
  mine.set_epoch(0);
  EXPECT_EQ(Pass(loaders), first);
}

TEST(DistributedSampler, Next_EndOfThePass_ShortBatchThenNone) {
  DistributedSampler sampler(5, 1, 2, {false, 0, false});
  EXPECT_EQ(sampler.size(), 3u);
  EXPECT_THAT(*sampler.next(2), ElementsAre(1, 3));
  EXPECT_THAT(*sampler.next(2), ElementsAre(0));
  EXPECT_FALSE(sampler.next(2).has_value());
}

// Gives `other` what `sampler` saves.
void Hand(const DistributedSampler& sampler, DistributedSampler* other) {
  torch::serialize::OutputArchive out;
  sampler.save(out);
  std::stringstream stream;
  out.save_to(stream);
  torch::serialize::InputArchive in;
  in.load_from(stream);
  other->load(in);
}

TEST(DistributedSampler, Load_SavedInThePass_GoesOnThere) {
  DistributedSampler sampler(20, 0, 2);
  sampler.set_epoch(4);
  sampler.reset();
  sampler.next(3);
  DistributedSampler other(20, 0, 2);
  Hand(sampler, &other);
  EXPECT_EQ(*other.next(100), *sampler.next(100));
}

TEST(DistributedSampler, Load_WithinAPassOfAnotherEpoch_GoesOnInTheSavedOne) {
  DistributedSampler sampler(20, 0, 2);
  sampler.set_epoch(4);
  sampler.reset();
  sampler.next(3);
  DistributedSampler other(20, 0, 2);
  other.next(5);
  Hand(sampler, &other);
  EXPECT_EQ(*other.next(100), *sampler.next(100));
}

TEST(DistributedSampler, Reset_NewSize_DealsThat) {
  DistributedSampler sampler(4, 0, 2, {false, 0, false});
  sampler.reset(6);
  EXPECT_THAT(*sampler.next(10), ElementsAre(0, 2, 4));
}

TEST(DistributedSampler, Reset_NewSize_KeepsRankEpochAndOptions) {
  const DistributedSamplerOptions options = {true, 5, true};
  DistributedSampler sampler(40, 1, 2, options);
  sampler.set_epoch(2);
  sampler.next(3);
  sampler.reset(31);
  EXPECT_EQ(sampler.size(), 15u);
  DistributedSampler fresh(31, 1, 2, options);
  fresh.set_epoch(2);
  EXPECT_EQ(*sampler.next(100), *fresh.next(100));
}

TEST(DistributedSampler, DataLoader_TakesIt) {
  const auto data = torch::data::datasets::TensorDataset(torch::arange(6));
  auto loader = torch::data::make_data_loader(data, DistributedSampler(6, 1, 2, {false, 0, false}),
                                              /*options=*/2);
  std::vector<int64_t> seen;
  for (const auto& batch : *loader) {
    for (const auto& example : batch) seen.push_back(example.data.item<int64_t>());
  }
  EXPECT_THAT(seen, ElementsAre(1, 3, 5));
}

TEST(DistributedSampler, RankOutOfRange_InvalidArgument) {
  try {
    DistributedSampler sampler(10, 2, 2);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "rank 2, expected 0 to 1");
  }
}

}  // namespace
}  // namespace gradwire::testing
