#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "coordinator/membership/participant.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ReplicasTest : public ::testing::Test {
 protected:
  // A worker for each, of incarnation 1 and up, with digests of tensors 0, 2, 4 …
  std::optional<ReplicaDifference> Compare(const std::vector<std::vector<uint64_t>>& digests) {
    std::vector<Participant> workers(digests.size());
    std::vector<Participant*> pointers;
    for (size_t i = 0; i < workers.size(); ++i) {
      workers[i].incarnation = Incarnation(i + 1);
      for (size_t j = 0; j < digests[i].size(); ++j) {
        workers[i].digests.push_back({2 * j, digests[i][j]});
      }
      pointers.push_back(&workers[i]);
    }
    return CompareReplicas(pointers);
  }
};

TEST_F(ReplicasTest, AllEqual_NoDifference) {
  EXPECT_FALSE(Compare({{1, 2}, {1, 2}, {1, 2}}));
  EXPECT_FALSE(Compare({{}, {}}));
  EXPECT_FALSE(Compare({{5}}));
}

TEST_F(ReplicasTest, OneOfThree_IsTheMinority) {
  for (size_t odd = 0; odd < 3; ++odd) {
    std::vector<std::vector<uint64_t>> digests(3, {1, 2, 3});
    digests[odd] = {1, 7, 8};
    const auto difference = Compare(digests);
    ASSERT_TRUE(difference) << odd;
    EXPECT_EQ(difference->tensor, 2u) << odd;
    EXPECT_THAT(difference->minority, ElementsAre(Incarnation(odd + 1)));
  }
}

TEST_F(ReplicasTest, TwoOfFiveThatDifferFromEachOther_AreTheMinority) {
  const auto difference = Compare({{1, 2}, {9, 2}, {1, 2}, {1, 3}, {1, 2}});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->tensor, 0u);  // of the first that differs
  EXPECT_THAT(difference->minority, ElementsAre(Incarnation(2), Incarnation(4)));
}

TEST_F(ReplicasTest, HalfOrLessAreEqual_NobodyIsTheMinority) {
  for (const auto& digests : std::vector<std::vector<std::vector<uint64_t>>>{
           {{1, 2}, {1, 3}}, {{1, 2}, {1, 2}, {1, 3}, {1, 3}}, {{1, 2}, {1, 3}, {1, 4}}}) {
    const auto difference = Compare(digests);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->tensor, 2u);
    EXPECT_THAT(difference->minority, IsEmpty());
  }
}

TEST_F(ReplicasTest, OneSaidLess_DiffersInTheFirstThatItLeftOut) {
  const auto difference = Compare({{1, 2}, {1}, {1, 2}});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->tensor, 2u);
  EXPECT_THAT(difference->minority, ElementsAre(Incarnation(2)));
}

}  // namespace
}  // namespace gradwire
