// What holds for every codec, and the bounds of each.

#include "common/compress/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_replace.h"
#include "common/fold/kernels.h"
#include "tests/support/random_floats.h"

namespace gradwire {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::RandomFloats;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CodecTest : public ::testing::Test {
 protected:
  explicit CodecTest(const std::string& name)
      : compression_(*ParseCompression(name)), coding_(*CodingOf(compression_.dtype)) {}

  std::vector<float> Decoded(const std::vector<uint8_t>& payload, size_t count) const {
    const ByteSpans pieces = {payload};
    EXPECT_TRUE(coding_.Check(pieces, count).ok()) << coding_.Check(pieces, count);
    std::vector<float> out(count, 7.0f);
    coding_.Decode(pieces, absl::MakeSpan(out));
    return out;
  }

  // What of `terms`, one for each step, has arrived in all, and what is still left out.
  struct Totals {
    std::vector<double> given, arrived;
  };
  Totals SendAll(Compressor* compressor, size_t count, int steps) const {
    Totals totals = {std::vector<double>(count), std::vector<double>(count)};
    for (int step = 0; step < steps; ++step) {
      const std::vector<float> term = RandomFloats(count, 100 + step);
      const std::vector<float> got = Decoded(compressor->Encode(Step(step), 0, term), count);
      for (size_t i = 0; i < count; ++i) {
        totals.given[i] += term[i];
        totals.arrived[i] += got[i];
      }
    }
    return totals;
  }

  const Compression compression_;
  const Coding& coding_;
};

class EveryCodec : public CodecTest, public ::testing::WithParamInterface<std::string> {
 protected:
  EveryCodec() : CodecTest(GetParam()) {}
};

TEST_P(EveryCodec, Encode_ManySteps_WhatArrivedAndWhatIsLeftOutAreTheSum) {
  constexpr size_t kCount = 10000;
  const auto compressor = MakeCompressor(compression_, kCount);
  const Totals totals = SendAll(compressor.get(), kCount, 20);
  const absl::Span<float> left = compressor->state()[0];
  for (size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(totals.arrived[i] + left[i], totals.given[i], 1e-4) << i;
  }
}

TEST_P(EveryCodec, Encode_InParts_BytesOfTheWhole) {
  const size_t unit = coding_.unit();
  const std::vector<float> values = RandomFloats(3 * unit + 5, 1);
  const auto whole = MakeCompressor(compression_, values.size());
  const auto parts = MakeCompressor(compression_, values.size());
  const std::vector<float> expected = Decoded(whole->Encode(Step(0), 0, values), values.size());
  std::vector<float> got;
  for (const size_t first : {size_t{0}, 2 * unit}) {
    const auto part = absl::MakeConstSpan(values).subspan(first, 2 * unit);
    const std::vector<float> of_part = Decoded(parts->Encode(Step(0), first, part), part.size());
    got.insert(got.end(), of_part.begin(), of_part.end());
  }
  EXPECT_EQ(got, expected);
}

TEST_P(EveryCodec, State_CapturedAndRestored_NextPayloadIsTheSame) {
  const std::vector<float> first = RandomFloats(5000, 1), second = RandomFloats(5000, 2);
  const auto one = MakeCompressor(compression_, first.size());
  const auto other = MakeCompressor(compression_, first.size());
  one->Encode(Step(0), 0, first);
  for (size_t i = 0; i < one->state().size(); ++i) {
    std::copy(one->state()[i].begin(), one->state()[i].end(), other->state()[i].begin());
  }
  EXPECT_EQ(other->Encode(Step(1), 0, second), one->Encode(Step(1), 0, second));
}

TEST_P(EveryCodec, Encode_OneElement_ArrivesWhole) {
  const auto compressor = MakeCompressor(compression_, 1);
  const std::vector<float> value = {-0.3f};
  EXPECT_NEAR(Decoded(compressor->Encode(Step(0), 0, value), 1)[0], -0.3f, 1e-7);
}

TEST_P(EveryCodec, Encode_NanOrInfinity_ArrivesAsOneAndIsNotKept) {
  for (const float bad : {kInf, -kInf, kNan}) {
    std::vector<float> values = RandomFloats(3000, 1);
    values[1500] = bad;
    const auto compressor = MakeCompressor(compression_, values.size());
    EXPECT_FALSE(std::isfinite(Decoded(compressor->Encode(Step(0), 0, values), 3000)[1500]));
    for (const absl::Span<float> state : compressor->state()) {
      EXPECT_TRUE(std::isfinite(state[1500]));
    }
  }
}

TEST_P(EveryCodec, Encode_Zeros_ArriveAsZeros) {
  const auto compressor = MakeCompressor(compression_, 5000);
  EXPECT_THAT(Decoded(compressor->Encode(Step(0), 0, std::vector<float>(5000)), 5000), Each(0.0f));
}

TEST_P(EveryCodec, Decode_PayloadInPieces_SameElements) {
  const auto compressor = MakeCompressor(compression_, 5000);
  const std::vector<uint8_t> payload = compressor->Encode(Step(0), 0, RandomFloats(5000, 3));
  const auto all = absl::MakeConstSpan(payload);
  std::vector<float> out(5000);
  coding_.Decode({all.subspan(0, 7), all.subspan(7, 0), all.subspan(7)}, absl::MakeSpan(out));
  EXPECT_EQ(out, Decoded(payload, 5000));
}

TEST_P(EveryCodec, Check_AnyLengthButItsOwn_InvalidArgument) {
  const auto compressor = MakeCompressor(compression_, 5000);
  std::vector<uint8_t> payload = compressor->Encode(Step(0), 0, RandomFloats(5000, 3));
  for (const size_t length : {size_t{0}, size_t{1}, payload.size() / 2, payload.size() - 1}) {
    const ByteSpans cut = {absl::MakeConstSpan(payload).subspan(0, length)};
    EXPECT_EQ(coding_.Check(cut, 5000).code(), absl::StatusCode::kInvalidArgument) << length;
  }
  payload.push_back(0);
  EXPECT_EQ(coding_.Check({payload}, 5000).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(EveryCodec, Check_RandomBytes_RefusedOrDecodedWithinBounds) {
  std::mt19937 engine(5);
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<uint8_t> payload(engine() % 300);
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(engine() % (turn % 2 == 0 ? 4 : 256));
    std::vector<float> out(engine() % 70 + 1);
    if (coding_.Check({payload}, out.size()).ok()) coding_.Decode({payload}, absl::MakeSpan(out));
  }
}

TEST_P(EveryCodec, EncodeMean_WithItsResidual_IsTheMean) {
  const std::vector<float> mean = RandomFloats(9000, 4);
  std::vector<float> residual(coding_.has_residual() ? mean.size() : 0);
  const std::vector<float> got =
      Decoded(coding_.EncodeMean(mean, absl::MakeSpan(residual)), mean.size());
  residual.resize(mean.size());
  for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(got[i] + residual[i], mean[i], 1e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Codecs, EveryCodec, ::testing::Values("int8", "top-k:0.01", "top-k:0.3", "top-k:1"),
    [](const auto& info) {
      return absl::StrReplaceAll(info.param, {{"-", ""}, {":", "_"}, {".", "_"}});
    });

class Int8Test : public CodecTest {
 protected:
  Int8Test() : CodecTest("int8") {}
};

TEST_F(Int8Test, Encode_AnyValues_WithinHalfAStep) {
  const std::vector<float> values = RandomFloats(4096, 6);
  const auto compressor = MakeCompressor(compression_, values.size());
  const std::vector<float> got = Decoded(compressor->Encode(Step(0), 0, values), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t unit = i / coding_.unit() * coding_.unit();
    float largest = 0;
    for (size_t j = 0; j < coding_.unit(); ++j) {
      largest = std::max(largest, std::abs(values[unit + j]));
    }
    ASSERT_LE(std::abs(got[i] - values[i]), largest / 127 / 2 * 1.0001f) << i;
  }
}

TEST_F(Int8Test, Encode_Bytes_OneForAnElementAndFourForAUnit) {
  const auto compressor = MakeCompressor(compression_, 2500);
  EXPECT_EQ(compressor->Encode(Step(0), 0, RandomFloats(2500, 1)).size(), 2500 + 3 * 4);
}

TEST_F(Int8Test, Encode_ValuesTooSmallToScale_AreKeptForLater) {
  const auto compressor = MakeCompressor(compression_, 4);
  const std::vector<float> tiny = {1e-36f, -1e-37f, 0, 1e-40f};
  EXPECT_THAT(Decoded(compressor->Encode(Step(0), 0, tiny), 4), Each(0.0f));
  EXPECT_EQ(compressor->state()[0][0], 1e-36f);
}

TEST_F(Int8Test, Kernels_EveryInstructionSet_SameBits) {
  const std::vector<float> values = RandomFloats(1001, 10);
  std::vector<std::vector<int8_t>> codes;
  std::vector<std::vector<float>> residuals;
  for (const KernelSet& set : SupportedKernels()) {
    codes.emplace_back(values.size());
    residuals.push_back(RandomFloats(values.size(), 11));
    set.encode_int8(values.data(), values.size(), residuals.back().data(), codes.back().data());
    EXPECT_EQ(codes.back(), codes.front()) << set.name;
    EXPECT_EQ(residuals.back(), residuals.front()) << set.name;
  }
}

TEST_F(Int8Test, Check_NegativeOrInfiniteScale_InvalidArgument) {
  for (const float scale : {-1.0f, kInf, -kInf}) {
    std::vector<uint8_t> payload(4 + 3);
    std::memcpy(payload.data(), &scale, 4);
    const absl::Status status = coding_.Check({payload}, 3);
    EXPECT_THAT(std::string(status.message()), HasSubstr("unit 0: got scale"));
  }
}

class TopKTest : public CodecTest {
 protected:
  TopKTest() : CodecTest("top-k:0.01") {}

  static size_t NonZeros(const std::vector<float>& values) {
    return values.size() - static_cast<size_t>(std::count(values.begin(), values.end(), 0.0f));
  }
};

TEST_F(TopKTest, Encode_AUnit_ItsLargestArrive) {
  std::vector<float> values = RandomFloats(4096, 8);
  const auto compressor = MakeCompressor(compression_, values.size());
  const std::vector<float> got = Decoded(compressor->Encode(Step(0), 0, values), values.size());
  EXPECT_EQ(NonZeros(got), 41);
  float least_sent = kInf, largest_kept = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (got[i] != 0) {
      EXPECT_EQ(got[i], values[i]);
      least_sent = std::min(least_sent, std::abs(values[i]));
    } else {
      largest_kept = std::max(largest_kept, std::abs(values[i]));
    }
  }
  EXPECT_GE(least_sent, largest_kept);
}

TEST_F(TopKTest, Encode_EqualMagnitudes_TheFirstArrive) {
  const auto compressor = MakeCompressor(compression_, 300);
  const std::vector<float> got =
      Decoded(compressor->Encode(Step(0), 0, std::vector<float>(300, -2.0f)), 300);
  for (size_t i = 0; i < 300; ++i) EXPECT_EQ(got[i], i < 3 ? -2.0f : 0.0f) << i;
}

TEST_F(TopKTest, Encode_Momentum_IsThatOfTheRankAndEndsWhereSent) {
  Compression compression = compression_;
  compression.momentum = 0.5f;
  const auto compressor = MakeCompressor(compression, 2);
  // The second element is never the largest, and adds up with its momentum: 1, then 1 + 1.5.
  Decoded(compressor->Encode(Step(0), 0, std::vector<float>{10, 1}), 2);
  Decoded(compressor->Encode(Step(1), 0, std::vector<float>{10, 1}), 2);
  EXPECT_EQ(compressor->state()[0][1], 2.5f);
  EXPECT_EQ(compressor->state()[1][1], 1.5f);
  EXPECT_EQ(compressor->state()[0][0], 0.0f);
  EXPECT_EQ(compressor->state()[1][0], 0.0f);
}

TEST_F(TopKTest, EncodeMean_Dense_NoLongerThanTheElements) {
  const std::vector<float> mean = RandomFloats(4096, 9);
  const std::vector<uint8_t> payload = coding_.EncodeMean(mean, {});
  EXPECT_EQ(payload.size(), 1 + 4 * mean.size());
  EXPECT_EQ(Decoded(payload, mean.size()), mean);
}

TEST_F(TopKTest, Check_PlacesOutOfOrderOrBeyond_InvalidArgument) {
  // Form 0; two places; 1.0 and 1.0.
  const auto payload = [](uint8_t first, uint8_t second) {
    return std::vector<uint8_t>{0, 2, 0, first, 0, second, 0, 0, 0, 128, 63, 0, 0, 128, 63};
  };
  EXPECT_TRUE(coding_.Check({payload(0, 4)}, 5).ok());
  EXPECT_THAT(std::string(coding_.Check({payload(0, 5)}, 5).message()), HasSubstr("got place 5"));
  EXPECT_FALSE(coding_.Check({payload(3, 3)}, 5).ok());
  EXPECT_FALSE(coding_.Check({payload(3, 2)}, 5).ok());
}

// As gradwire plan tells them.
TEST(BytesPerElement, Int8_HasAByteAndAPartOfTheScale) {
  const Compression compression = *ParseCompression("int8");
  EXPECT_DOUBLE_EQ(CodingOf(v1::DTYPE_INT8)->BytesPerElement(compression, 4), 1 + 4.0 / 1024);
}

// A term has 6 bytes for each element that is sent; a mean has those of all ranks, and at most 4
// for each element.
TEST(BytesPerElement, TopK_GrowsWithTheRanksUpToWholeMeans) {
  const Compression compression = *ParseCompression("top-k:0.01");
  const Coding& coding = *CodingOf(compression.dtype);
  EXPECT_DOUBLE_EQ(coding.BytesPerElement(compression, 1), (0.06 + 0.06) / 2);
  EXPECT_DOUBLE_EQ(coding.BytesPerElement(compression, 4), (0.06 + 4 * 0.06) / 2);
  EXPECT_DOUBLE_EQ(coding.BytesPerElement(compression, 100), (0.06 + 4) / 2);
}

}  // namespace
}  // namespace gradwire
