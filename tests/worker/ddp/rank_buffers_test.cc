#include "worker/ddp/rank_buffers.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gradwire {
namespace {

// A module's one buffer, which is 1 at first.
class RankBuffersTest : public ::testing::Test {
 protected:
  float value() const { return module_.item<float>(); }
  // A rank's forward pass sets it to `value`, whatever it was; returns what it was.
  float Pass(RankBuffers& buffers, size_t rank, float value) {
    buffers.Load(rank);
    const float before = module_.item<float>();
    module_.fill_(value);
    buffers.Store(rank);
    return before;
  }

  torch::Tensor module_ = torch::ones({});
};

TEST_F(RankBuffersTest, Load_NotBroadcast_EachRankGoesOnWithItsOwn) {
  RankBuffers buffers({module_}, false, false);
  buffers.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers, 0, 10), 1);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  EXPECT_EQ(Pass(buffers, 0, 11), 10);
  EXPECT_EQ(Pass(buffers, 1, 21), 20);
}

TEST_F(RankBuffersTest, Take_Broadcast_AllRanksStartFromWhatArrived) {
  RankBuffers buffers({module_}, true, false);
  buffers.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers, 0, 10), 1);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  buffers.Take();
  EXPECT_EQ(value(), 10);
  EXPECT_EQ(Pass(buffers, 0, 11), 10);
  EXPECT_EQ(Pass(buffers, 1, 21), 10);
}

TEST_F(RankBuffersTest, Take_RootElsewhere_ItsBuffersNotOwn) {
  RankBuffers buffers({module_}, true, false);
  buffers.SetRanks({Rank(1), Rank(2)});
  const float arrived = 7;  // before the own passes: the root's worker was sooner done
  std::memcpy(buffers.travelling().data(), &arrived, sizeof(arrived));
  Pass(buffers, 0, 10);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  buffers.Take();
  EXPECT_EQ(value(), 7);
}

TEST_F(RankBuffersTest, Rewind_StepNotKept_ModuleHasWhatItStartedFrom) {
  RankBuffers buffers({module_}, true, false);
  buffers.SetRanks({Rank(0)});
  Pass(buffers, 0, 10);
  buffers.Take();
  buffers.Keep();
  Pass(buffers, 0, 11);
  buffers.Rewind();  // before the step's buffers arrived
  EXPECT_EQ(value(), 10);
  buffers.SetRanks({Rank(0), Rank(1)});
  Pass(buffers, 0, 12);
  buffers.Take();
  EXPECT_EQ(value(), 12);
  buffers.Rewind();  // after that
  EXPECT_EQ(value(), 10);
  buffers.SetRanks({Rank(0)});
  EXPECT_EQ(Pass(buffers, 0, 13), 10);
}

// A resumed run restores them; then a worker is lost before its first step.
TEST_F(RankBuffersTest, Rewind_BeforeTheFirstRanks_ModuleKeepsWhatWasRestored) {
  for (const bool broadcast : {true, false}) {
    module_.fill_(1);
    RankBuffers buffers({module_}, broadcast, true);
    module_.fill_(5);
    buffers.Rewind();
    EXPECT_EQ(value(), 5);
    buffers.SetRanks({Rank(0), Rank(1)});
    EXPECT_EQ(Pass(buffers, 0, 10), 5);
    EXPECT_EQ(Pass(buffers, 1, 20), 5);
    buffers.Rewind();
    EXPECT_EQ(value(), 5);
  }
}

TEST_F(RankBuffersTest, Rewind_AfterKeep_IsTheStepBehind) {
  RankBuffers buffers({module_}, true, false);
  buffers.SetRanks({Rank(0)});
  Pass(buffers, 0, 10);
  buffers.Take();
  buffers.Keep();
  buffers.Rewind();
  EXPECT_EQ(value(), 10);
}

// Nothing is broadcast: of each rank, its own.
class OwnRankBuffersTest : public RankBuffersTest {
 protected:
  RankBuffers buffers_{{module_}, false, true};
};

TEST_F(OwnRankBuffersTest, Rewind_StepNotKept_EachRankHasWhatItStartedItFrom) {
  buffers_.SetRanks({Rank(1), Rank(2)});
  Pass(buffers_, 0, 10);
  Pass(buffers_, 1, 20);
  buffers_.Keep();
  Pass(buffers_, 0, 11);
  Pass(buffers_, 1, 21);
  Pass(buffers_, 0, 12);  // of the step behind, which rank 2 has not begun
  buffers_.Rewind();
  EXPECT_EQ(value(), 10);
  buffers_.SetRanks({Rank(1), Rank(2)});
  EXPECT_EQ(Pass(buffers_, 0, 11), 10);
  EXPECT_EQ(Pass(buffers_, 1, 21), 20);
}

TEST_F(OwnRankBuffersTest, Rewind_AfterKeep_IsTheStepBehind) {
  buffers_.SetRanks({Rank(1), Rank(2)});
  for (const float step : {1, 2}) {
    Pass(buffers_, 0, 10 + step);
    Pass(buffers_, 1, 20 + step);
  }
  buffers_.Keep();  // the first one is sealed, which this worker hears with the view
  buffers_.Rewind();
  buffers_.SetRanks({Rank(1), Rank(2)});
  EXPECT_EQ(Pass(buffers_, 0, 12), 11);
  EXPECT_EQ(Pass(buffers_, 1, 22), 21);
}

TEST_F(OwnRankBuffersTest, Rewind_OneRank_ItsPassStartsFromWhatItHad) {
  buffers_.SetRanks({Rank(3)});
  Pass(buffers_, 0, 10);
  buffers_.Keep();
  Pass(buffers_, 0, 11);
  module_.fill_(12);  // a pass that was broken off
  buffers_.Rewind();
  EXPECT_EQ(value(), 10);
  buffers_.SetRanks({Rank(3)});
  EXPECT_EQ(Pass(buffers_, 0, 11), 10);
}

TEST_F(OwnRankBuffersTest, SetRanks_AfterRewind_AdoptedRankHasThoseOfTheFirstCarriedOne) {
  buffers_.SetRanks({Rank(1), Rank(2)});
  Pass(buffers_, 0, 10);
  Pass(buffers_, 1, 20);
  buffers_.Keep();
  Pass(buffers_, 0, 11);
  Pass(buffers_, 1, 21);
  buffers_.Rewind();
  buffers_.SetRanks({Rank(0), Rank(1), Rank(2)});
  EXPECT_EQ(Pass(buffers_, 0, 1), 10);
  EXPECT_EQ(Pass(buffers_, 1, 11), 10);
  EXPECT_EQ(Pass(buffers_, 2, 21), 20);
}

TEST_F(OwnRankBuffersTest, SetRanks_RewoundTwice_KeepsItsOwn) {
  buffers_.SetRanks({Rank(1), Rank(2)});
  Pass(buffers_, 0, 10);
  Pass(buffers_, 1, 20);
  buffers_.Keep();
  for (int view = 0; view < 2; ++view) {
    buffers_.Rewind();
    buffers_.SetRanks({Rank(1), Rank(2)});
  }
  EXPECT_EQ(Pass(buffers_, 0, 11), 10);
  EXPECT_EQ(Pass(buffers_, 1, 21), 20);
}

TEST_F(OwnRankBuffersTest, SetRanks_WithoutRewind_AllStartFromTheModule) {
  buffers_.SetRanks({Rank(0), Rank(1)});
  Pass(buffers_, 0, 10);
  Pass(buffers_, 1, 20);
  module_.fill_(5);
  buffers_.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers_, 0, 10), 5);
  EXPECT_EQ(Pass(buffers_, 1, 20), 5);
}

// What was rewound for the view before is no reason to keep anything.
TEST_F(OwnRankBuffersTest, SetRanks_OnceMoreWithoutRewind_AllStartFromTheModule) {
  buffers_.SetRanks({Rank(0), Rank(1)});
  Pass(buffers_, 0, 10);
  Pass(buffers_, 1, 20);
  buffers_.Rewind();
  buffers_.SetRanks({Rank(0), Rank(1)});
  module_.fill_(5);
  buffers_.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers_, 0, 10), 5);
  EXPECT_EQ(Pass(buffers_, 1, 20), 5);
}

// A counter of BatchNorm stands between two of its statistics.
TEST(RankBuffers, Load_SeveralBuffersOfOtherTypes_EachItsOwn) {
  torch::Tensor first = torch::zeros({2}), counter = torch::zeros({}, torch::kLong),
                last = torch::zeros({3});
  const auto set = [&](float value) {
    first.fill_(value);
    counter.fill_(static_cast<int64_t>(value) + 1);
    last.fill_(value + 2);
  };
  RankBuffers buffers({first, counter, last}, false, false);
  EXPECT_EQ(buffers.bytes(), 8u + 8 + 12);
  buffers.SetRanks({Rank(0), Rank(1)});
  for (const size_t rank : {0, 1}) {
    buffers.Load(rank);
    set(rank == 0 ? 10 : 20);
    buffers.Store(rank);
  }
  buffers.Load(0);
  EXPECT_TRUE(first.equal(torch::full({2}, 10.0f)));
  EXPECT_EQ(counter.item<int64_t>(), 11);
  EXPECT_TRUE(last.equal(torch::full({3}, 12.0f)));
}

TEST_F(RankBuffersTest, Travel_NoBuffersOrNotBroadcast_No) {
  EXPECT_TRUE(RankBuffers({module_}, true, false).travel());
  EXPECT_FALSE(RankBuffers({module_}, false, false).travel());
  EXPECT_FALSE(RankBuffers({}, true, false).travel());
}

}  // namespace
}  // namespace gradwire
