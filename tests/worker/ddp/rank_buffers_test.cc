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
  RankBuffers buffers({module_}, false);
  buffers.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers, 0, 10), 1);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  EXPECT_EQ(Pass(buffers, 0, 11), 10);
  EXPECT_EQ(Pass(buffers, 1, 21), 20);
}

TEST_F(RankBuffersTest, Take_Broadcast_AllRanksStartFromWhatArrived) {
  RankBuffers buffers({module_}, true);
  buffers.SetRanks({Rank(0), Rank(1)});
  EXPECT_EQ(Pass(buffers, 0, 10), 1);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  buffers.Take();
  EXPECT_EQ(value(), 10);
  EXPECT_EQ(Pass(buffers, 0, 11), 10);
  EXPECT_EQ(Pass(buffers, 1, 21), 10);
}

TEST_F(RankBuffersTest, Take_RootElsewhere_ItsBuffersNotOwn) {
  RankBuffers buffers({module_}, true);
  buffers.SetRanks({Rank(1), Rank(2)});
  const float arrived = 7;  // before the own passes: the root's worker was sooner done
  std::memcpy(buffers.travelling().data(), &arrived, sizeof(arrived));
  Pass(buffers, 0, 10);
  EXPECT_EQ(Pass(buffers, 1, 20), 1);
  buffers.Take();
  EXPECT_EQ(value(), 7);
}

TEST_F(RankBuffersTest, Rewind_StepNotKept_ModuleHasWhatItStartedFrom) {
  RankBuffers buffers({module_}, true);
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

TEST_F(RankBuffersTest, Rewind_AfterKeep_IsTheStepBehind) {
  RankBuffers buffers({module_}, true);
  buffers.SetRanks({Rank(0)});
  Pass(buffers, 0, 10);
  buffers.Take();
  buffers.Keep();
  buffers.Rewind();
  EXPECT_EQ(value(), 10);
}

TEST_F(RankBuffersTest, Travel_NoBuffersOrNotBroadcast_No) {
  EXPECT_TRUE(RankBuffers({module_}, true).travel());
  EXPECT_FALSE(RankBuffers({module_}, false).travel());
  EXPECT_FALSE(RankBuffers({}, true).travel());
}

}  // namespace
}  // namespace gradwire
