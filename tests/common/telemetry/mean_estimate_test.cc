#include "common/telemetry/mean_estimate.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace gradwire {
namespace {

MeanEstimate Of(std::initializer_list<double> values) {
  MeanEstimate estimate;
  for (const double value : values) estimate.Add(value);
  return estimate;
}

TEST(MeanEstimate, Add_FourValues_GivesMeanAndVarianceOfTheMean) {
  const MeanEstimate estimate = Of({1, 2, 3, 6});
  EXPECT_EQ(estimate.count(), 4);
  EXPECT_DOUBLE_EQ(estimate.mean(), 3);
  EXPECT_DOUBLE_EQ(estimate.variance(), 14.0 / (4 * 3));
}

TEST(MeanEstimate, Variance_FewerThanTwoValues_IsZero) {
  EXPECT_EQ(Of({}).variance(), 0);
  EXPECT_EQ(Of({7}).variance(), 0);
  EXPECT_EQ(Of({7}).mean(), 7);
}

}  // namespace
}  // namespace gradwire
