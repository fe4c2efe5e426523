#include <gtest/gtest.h>

#include "worker/backends/transfer_table.h"

namespace gradwire {
namespace {

TEST(OverflowMonitorTest, Note_SeveralInAStep_CountTheStepOnce) {
  OverflowMonitor monitor(v1::DTYPE_FLOAT16);
  EXPECT_EQ(monitor.steps(), 0);
  monitor.Note(Step(3), Rank(1));
  monitor.Note(Step(3), Rank(1));
  monitor.Note(Step(4), Rank(1));
  EXPECT_EQ(monitor.steps(), 2);
}

TEST(OverflowMonitorTest, OverflowMessage_Fp16_NamesStepRankAndWayOut) {
  EXPECT_EQ(OverflowMessage(v1::DTYPE_FLOAT16, Step(7), Rank(2), 1),
            "step 7, rank 2: a gradient is too large for fp16 (above 65504) and became infinite on "
            "the wire, so the mean of all ranks is infinite, too; --wire bf16 has the range of "
            "fp32, and a "
            "smaller --lr keeps gradients small (steps with such gradients: 1)");
}

TEST(OverflowMonitorTest, OverflowMessage_Bf16_SaysNothingOfBf16AsAWayOut) {
  EXPECT_EQ(OverflowMessage(v1::DTYPE_BFLOAT16, Step(7), Rank(2), 4),
            "step 7, rank 2: a gradient is too large for bf16 (above 3.39e38) and became infinite "
            "on the wire, so the mean of all ranks is infinite, too; a smaller --lr keeps "
            "gradients small "
            "(steps with such gradients: 4)");
}

}  // namespace
}  // namespace gradwire
