#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

// So that a run that diverges does not fill its log.
TEST(OverflowMonitorTest, Note_ManySteps_WarnsOfThe1st2nd4thAnd8th) {
  OverflowMonitor monitor(v1::DTYPE_FLOAT16);
  ::testing::internal::CaptureStdout();
  for (const uint64_t step : {10, 11, 12, 13, 14, 15, 16, 17, 18})
    monitor.Note(Step(step), Rank(3));
  const std::string log = ::testing::internal::GetCapturedStdout();
  size_t warnings = 0;
  for (size_t at = log.find("a gradient is"); at != std::string::npos; ++warnings) {
    at = log.find("a gradient is", at + 1);
  }
  EXPECT_EQ(warnings, 4u) << log;
  EXPECT_THAT(log, ::testing::HasSubstr("step 10, rank 3: a gradient is too large for fp16"));
  EXPECT_THAT(log, ::testing::HasSubstr("(steps with such gradients: 8)"));
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

TEST(OverflowMonitorTest, OverflowMessage_SumsAreRoundedToo_DoesNotBlameTheGradientAlone) {
  EXPECT_THAT(
      OverflowMessage(v1::DTYPE_FLOAT16, Step(7), Rank(2), 1, /*sums=*/true),
      ::testing::StartsWith("step 7, rank 2: a gradient, or a sum of some ranks' gradients, "
                            "is too large for fp16 (above 65504) and became infinite"));
}

}  // namespace
}  // namespace gradwire
