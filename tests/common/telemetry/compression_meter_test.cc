#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/telemetry/figure_series.h"

namespace gradwire {
namespace {

TEST(CompressionMeter, NothingCompressed_None) {
  CompressionMeter meter;
  EXPECT_FALSE(meter.OnStep({}).has_value());
}

TEST(CompressionMeter, Steps_EachTellsOfItself) {
  CompressionMeter meter;
  const auto first = meter.OnStep({400, 100, 4, 1});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->ratio, 4);
  EXPECT_EQ(first->residual, 0.5);
  const auto second = meter.OnStep({500, 150, 5, 10});
  EXPECT_EQ(second->ratio, 2);
  EXPECT_EQ(second->residual, 3);
}

TEST(CompressionMeter, StepInWhichNothingIsMeasured_HasTheResidualFromBefore) {
  CompressionMeter meter;
  EXPECT_FALSE(meter.OnStep({400, 100})->residual.has_value());
  EXPECT_EQ(meter.OnStep({800, 200, 4, 1})->residual, 0.5);
  EXPECT_EQ(meter.OnStep({1200, 300, 4, 1})->residual, 0.5);
}

TEST(CompressionMeter, StepWithoutAnExchange_NoneAndCountsNotForTheNext) {
  CompressionMeter meter;
  meter.OnStep({400, 100});
  EXPECT_FALSE(meter.OnStep({400, 100}).has_value());
  EXPECT_EQ(meter.OnStep({600, 200})->ratio, 2);
}

TEST(SquareOf, NotFinite_IsNothing) {
  EXPECT_EQ(SquareOf({}), 0);
  EXPECT_EQ(SquareOf(std::vector<float>{3, 4}), 25);
  EXPECT_EQ(SquareOf(std::vector<float>{3, std::numeric_limits<float>::infinity()}), 0);
}

TEST(IsResidualMeasured, FirstStepAndSomeOfTheRest) {
  int measured = 0;
  for (uint64_t step = 0; step < 80; ++step) measured += IsResidualMeasured(Step(step)) ? 1 : 0;
  EXPECT_TRUE(IsResidualMeasured(Step(0)));
  EXPECT_EQ(measured, 10);
}

}  // namespace
}  // namespace gradwire
