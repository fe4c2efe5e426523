#include "worker/state/kept_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

using Floats = std::vector<float>;

// Two buckets: of "a" [2, 2] and "b" [3], and of "c" [4].
std::vector<PartOfBucket> PartsOf(size_t bucket) {
  if (bucket == 1) return {{"c", torch::zeros({4}), 0}};
  return {{"a", torch::zeros({2, 2}), 0}, {"b", torch::zeros({3}), 4}};
}

// What an exchange keeps, and its memory.
class Keeper {
 public:
  void OfRank(int rank, const std::string& kind, int bucket, Floats values, uint64_t first = 0) {
    Add({kind, Rank(rank), Bucket(bucket), first, {}, {}}, std::move(values));
  }
  void OfMean(int bucket, uint64_t first, Floats values) {
    Add(KeptOfMean(Bucket(bucket), first, {}), std::move(values));
  }
  void OfAll(const std::string& kind, int bucket, uint64_t first, Floats values) {
    const auto size = static_cast<int64_t>(values.size());
    Add({kind, absl::nullopt, Bucket(bucket), first, {1, size}, {}}, std::move(values));
  }

  const std::vector<KeptValues>& kept() const { return kept_; }
  const Floats& values(size_t index) const { return *memory_[index]; }
  StateCopy Copy() const {
    std::vector<StateTensorRef> tensors;
    CopyKept(kept_, PartsOf, &tensors);
    return StateCopy(std::move(tensors));
  }
  absl::Status Restore(StateCopy* state) const {
    const auto fetch = [state](const std::string& section, const std::string& key,
                               const torch::Tensor& tensor) {
      return state->Read(section, key, 0,
                         {static_cast<uint8_t*>(tensor.data_ptr()), tensor.nbytes()});
    };
    return RestoreKept(StateReader(state->catalog(), fetch), PartsOf, kept_);
  }

 private:
  void Add(KeptValues kept, Floats values) {
    memory_.push_back(std::make_unique<Floats>(std::move(values)));
    kept.values = absl::MakeSpan(*memory_.back());
    kept_.push_back(std::move(kept));
  }

  std::vector<std::unique_ptr<Floats>> memory_;
  std::vector<KeptValues> kept_;
};

std::vector<std::string> KeysOf(const StateCopy& copy) {
  std::vector<std::string> keys;
  for (const v1::StateSection& section : copy.catalog().sections()) {
    for (const v1::StateTensor& tensor : section.tensors()) {
      keys.push_back(section.name() + ": " + tensor.key());
    }
  }
  return keys;
}

TEST(KeptStateTest, Keys_AreOfTensorsAndRanks) {
  Keeper keeper;
  keeper.OfRank(3, "error", 0, {1, 2, 3, 4, 5, 6, 7});
  keeper.OfRank(3, "momentum", 1, {1, 2, 3, 4});
  keeper.OfMean(0, 2, {5, 6, 7, 8});
  keeper.OfAll("basis", 0, 4, {1, 2});
  EXPECT_THAT(KeysOf(keeper.Copy()),
              ::testing::ElementsAre("codec: basis/b", "residuals: 3/error/a",
                                     "residuals: 3/error/b", "residuals: 3/momentum/c",
                                     "residuals: mean/a/2", "residuals: mean/b/0"));
}

// The error of one matrix of the bucket.
TEST(KeptStateTest, PartOfABucket_HasOnlyItsTensors) {
  Keeper keeper;
  keeper.OfRank(0, "error", 0, {1, 2, 3}, /*first=*/4);
  EXPECT_THAT(KeysOf(keeper.Copy()), ::testing::ElementsAre("residuals: 0/error/b"));
}

// The exchange goes on while the copy is written.
TEST(KeptStateTest, ValuesThatChangeLater_AreTheOldOnesInTheCopy) {
  Keeper keeper;
  keeper.OfRank(0, "error", 1, {1, 2, 3, 4});
  keeper.OfMean(1, 0, {5, 6, 7, 8});
  keeper.OfAll("basis", 1, 0, {9, 10});
  StateCopy state = keeper.Copy();
  for (const KeptValues& kept : keeper.kept()) std::fill(kept.values.begin(), kept.values.end(), 0);
  ASSERT_TRUE(keeper.Restore(&state).ok());
  EXPECT_EQ(keeper.values(0), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(keeper.values(1), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(keeper.values(2), (Floats{9, 10}));
}

TEST(KeptStateTest, OnlyWhatAllHaveInCommon_HasDigests) {
  Keeper keeper;
  keeper.OfRank(0, "error", 1, {1, 2, 3, 4});
  keeper.OfMean(1, 0, {5, 6, 7, 8});
  EXPECT_TRUE(keeper.Copy().Digests().empty());
  keeper.OfAll("basis", 1, 0, {1, 2});
  EXPECT_EQ(keeper.Copy().Digests().size(), 1u);
}

TEST(KeptStateTest, Restore_OfOtherRangesOfTheMean_IsTheSame) {
  Keeper keeper;
  keeper.OfRank(1, "error", 0, {1, 2, 3, 4, 5, 6, 7});
  keeper.OfAll("basis", 0, 0, {8, 9});
  keeper.OfMean(0, 0, {10, 11, 12});
  keeper.OfMean(0, 3, {13, 14, 15, 16});
  StateCopy state = keeper.Copy();
  Keeper other;
  other.OfRank(1, "error", 0, Floats(7));
  other.OfAll("basis", 0, 0, Floats(2));
  other.OfMean(0, 0, Floats(5));
  other.OfMean(0, 6, Floats(1));
  const absl::Status restored = other.Restore(&state);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(other.values(0), keeper.values(0));
  EXPECT_EQ(other.values(1), keeper.values(1));
  EXPECT_EQ(other.values(2), (Floats{10, 11, 12, 13, 14}));
  EXPECT_EQ(other.values(3), (Floats{16}));
}

// This worker has nothing of the mean of bucket 0, or parts of both buckets.
TEST(KeptStateTest, Restore_MeansOfSeveralBuckets_EachHasItsOwn) {
  Keeper keeper;
  keeper.OfMean(1, 0, {20, 21, 22, 23});
  keeper.OfMean(0, 0, {10, 11, 12, 13, 14, 15, 16});
  StateCopy state = keeper.Copy();
  Keeper of_one, of_both;
  of_one.OfMean(1, 1, Floats(2));
  of_both.OfMean(0, 5, Floats(2));
  of_both.OfMean(1, 3, Floats(1));
  ASSERT_TRUE(of_one.Restore(&state).ok());
  ASSERT_TRUE(of_both.Restore(&state).ok());
  EXPECT_EQ(of_one.values(0), (Floats{21, 22}));
  EXPECT_EQ(of_both.values(0), (Floats{15, 16}));
  EXPECT_EQ(of_both.values(1), (Floats{23}));
}

TEST(KeptStateTest, Restore_LacksARangeOfTheMean_NamesTheTensor) {
  Keeper keeper;
  keeper.OfMean(0, 0, {10, 11, 12});
  StateCopy state = keeper.Copy();
  Keeper other;
  other.OfMean(0, 0, Floats(7));
  const absl::Status restored = other.Restore(&state);
  EXPECT_EQ(restored.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(restored.message()), HasSubstr("mean/a/"));
  EXPECT_THAT(std::string(restored.message()), HasSubstr("3 elements"));
}

TEST(KeptStateTest, Restore_RangeBeyondTheTensor_IsRefused) {
  StateCopy state({{"residuals", "mean/a/2", torch::zeros({4}), false}});
  Keeper other;
  other.OfMean(0, 0, Floats(4));
  const absl::Status restored = other.Restore(&state);
  EXPECT_EQ(restored.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(restored.message()), HasSubstr("mean/a/2"));
}

}  // namespace
}  // namespace gradwire
