#include "common/compress/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/compress/codec.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

TEST(ParseCompression, MisspeltName_GetsTheNearest) {
  EXPECT_THAT(std::string(ParseCompression("topk:0.1").status().message()),
              ::testing::EndsWith("; did you mean top-k?"));
  EXPECT_THAT(std::string(ParseCompression("top-k").status().message()),
              ::testing::Not(HasSubstr("did you mean")));
}

TEST(ParseCompression, None_IsOff) { EXPECT_FALSE(ParseCompression("none")->is_on()); }

TEST(ParseCompression, Int8_IsItsDtype) {
  EXPECT_EQ(ParseCompression("int8")->dtype, v1::DTYPE_INT8);
}

TEST(ParseCompression, TopK_HasItsDensity) {
  const absl::StatusOr<Compression> compression = ParseCompression("top-k:0.25");
  EXPECT_EQ(compression->dtype, v1::DTYPE_SPARSE);
  EXPECT_EQ(compression->density, 0.25);
}

TEST(ParseCompression, PowerSgd_HasItsRankAndTravelsInFloat32) {
  const absl::StatusOr<Compression> compression = ParseCompression("powersgd:4");
  EXPECT_EQ(compression->rank, 4);
  EXPECT_EQ(compression->dtype, v1::DTYPE_FLOAT32);
  EXPECT_TRUE(compression->is_on() && !compression->is_coded());
  EXPECT_EQ(CodingOf(compression->dtype), nullptr);
}

TEST(ParseCompression, Nonsense_SaysWhatWasExpected) {
  for (const char* text : {"", "zip", "int8:2", "top-k", "top-k:", "top-k:0", "top-k:1.5",
                           "top-k:nan", "top-k:x", "int8 ", "powersgd", "powersgd:", "powersgd:0",
                           "powersgd:-1", "powersgd:2.5", "powersgd:1025"}) {
    const absl::Status status = ParseCompression(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected none, int8, top-k:D")) << text;
  }
}

TEST(DensityAt, NoWarmUp_IsTheDensity) {
  EXPECT_EQ(DensityAt(*ParseCompression("top-k:0.01"), 0), 0.01);
}

TEST(DensityAt, WarmUp_FallsFromAQuarterByOneFactor) {
  Compression compression = *ParseCompression("top-k:0.01");
  compression.warmup_steps = 4;
  double before = 0.25;
  const double factor = DensityAt(compression, 0) / before;
  EXPECT_LT(factor, 1);
  for (uint64_t step = 0; step < 5; ++step) {
    EXPECT_NEAR(DensityAt(compression, step), before * factor, 1e-12) << step;
    before = DensityAt(compression, step);
  }
  EXPECT_EQ(DensityAt(compression, 4), 0.01);
  EXPECT_EQ(DensityAt(compression, std::numeric_limits<uint64_t>::max() / 2), 0.01);
}

TEST(DensityAt, WarmUpOfALargeDensity_DoesNotFall) {
  Compression compression = *ParseCompression("top-k:0.5");
  compression.warmup_steps = 4;
  EXPECT_EQ(DensityAt(compression, 0), 0.5);
}

}  // namespace
}  // namespace gradwire
