#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/fold/fold.h"
#include "common/fold/kernels.h"

namespace gradwire {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// A format of 16 bits with `fraction` bits of fraction, and IEEE 754's meaning.
struct Format {
  v1::DType dtype;
  int fraction;
  int least_exponent;  // of normal numbers
  int max_exponent;
};

constexpr Format kBfloat16 = {v1::DTYPE_BFLOAT16, 7, -126, 127};
constexpr Format kFloat16 = {v1::DTYPE_FLOAT16, 10, -14, 15};
constexpr Format kFormats[] = {kBfloat16, kFloat16};

// The value of a pattern, as the standard defines it.
double ValueOf(const Format& format, uint16_t pattern) {
  const int field = (pattern & 0x7fff) >> format.fraction;
  const int fraction = pattern & ((1 << format.fraction) - 1);
  const double sign = pattern & 0x8000 ? -1 : 1;
  if (field == format.max_exponent - format.least_exponent + 2) {
    return fraction == 0 ? sign * kInf : std::nan("");
  }
  if (field == 0) return sign * std::ldexp(fraction, format.least_exponent - format.fraction);
  const int exponent = field - 1 + format.least_exponent;
  return sign * std::ldexp((1 << format.fraction) + fraction, exponent - format.fraction);
}

// The pattern nearest to a finite value, ties to even, by arithmetic in double.
uint16_t Nearest(const Format& format, float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  const int infinity = (format.max_exponent - format.least_exponent + 2) << format.fraction;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  const double unit = std::ldexp(1.0, exponent - format.fraction);
  const int units = static_cast<int>(std::nearbyint(magnitude / unit));
  const int pattern = ((exponent - format.least_exponent) << format.fraction) + units;
  return static_cast<uint16_t>(sign | std::min(pattern, infinity));
}

std::vector<uint16_t> NarrowAll(const KernelSet& set, v1::DType dtype,
                                const std::vector<float>& values, bool* overflow) {
  std::vector<uint16_t> patterns(values.size());
  *overflow = set.For(dtype).narrow(values.data(), values.size(),
                                    reinterpret_cast<uint8_t*>(patterns.data()));
  return patterns;
}

std::vector<float> WidenAll(const KernelSet& set, v1::DType dtype,
                            const std::vector<uint16_t>& patterns) {
  std::vector<float> values(patterns.size());
  set.For(dtype).widen(reinterpret_cast<const uint8_t*>(patterns.data()), patterns.size(),
                       values.data());
  return values;
}

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

// Values of every size, and those half way between two patterns and beside them.
std::vector<float> HardValues(const Format& format) {
  std::vector<float> values;
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) values.push_back(FloatOf(static_cast<uint32_t>(random())));
  for (uint32_t pattern = 0; pattern < 0x8000; ++pattern) {
    const double low = ValueOf(format, static_cast<uint16_t>(pattern));
    const double high = ValueOf(format, static_cast<uint16_t>(pattern + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float tie = static_cast<float>((low + high) / 2);
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

TEST(HalfTest, Widen_AllPatterns_ExactlyTheirValues) {
  for (const KernelSet& set : SupportedKernels()) {
    for (const Format& format : kFormats) {
      const std::vector<float> values = WidenAll(set, format.dtype, AllPatterns());
      for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
        const double expected = ValueOf(format, static_cast<uint16_t>(pattern));
        ASSERT_EQ(std::isnan(values[pattern]), std::isnan(expected)) << set.name << " " << pattern;
        if (std::isnan(expected)) continue;
        ASSERT_EQ(values[pattern], expected) << set.name << " " << pattern;
        ASSERT_EQ(std::signbit(values[pattern]), pattern >= 0x8000) << set.name << " " << pattern;
      }
    }
  }
}

TEST(HalfTest, Narrow_WidenedPatterns_AreTheSameAgainButQuiet) {
  for (const KernelSet& set : SupportedKernels()) {
    for (const Format& format : kFormats) {
      const std::vector<uint16_t> all = AllPatterns();
      bool overflow = true;
      const auto again = NarrowAll(set, format.dtype, WidenAll(set, format.dtype, all), &overflow);
      EXPECT_FALSE(overflow);
      for (const uint16_t pattern : all) {
        const bool is_nan = std::isnan(ValueOf(format, pattern));
        const int quiet = is_nan ? 1 << (format.fraction - 1) : 0;
        ASSERT_EQ(again[pattern], pattern | quiet) << set.name << " " << format.dtype;
      }
    }
  }
}

TEST(HalfTest, Narrow_RandomValuesAndTies_NearestWithTiesToEven) {
  for (const Format& format : kFormats) {
    const std::vector<float> values = HardValues(format);
    for (const KernelSet& set : SupportedKernels()) {
      bool overflow = false;
      const std::vector<uint16_t> patterns = NarrowAll(set, format.dtype, values, &overflow);
      EXPECT_TRUE(overflow);
      for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isfinite(values[i])) continue;
        ASSERT_EQ(patterns[i], Nearest(format, values[i]))
            << set.name << ", dtype " << format.dtype << ", value " << values[i];
      }
    }
  }
}

TEST(HalfTest, Narrow_NanAndInfinity_AreKept) {
  const std::vector<float> values = {kInf, -kInf, FloatOf(0x7f800001), FloatOf(0xffffffff)};
  for (const KernelSet& set : SupportedKernels()) {
    bool overflow = true;
    EXPECT_EQ(NarrowAll(set, v1::DTYPE_BFLOAT16, values, &overflow),
              (std::vector<uint16_t>{0x7f80, 0xff80, 0x7fc0, 0xffff}));
    EXPECT_FALSE(overflow);
    EXPECT_EQ(NarrowAll(set, v1::DTYPE_FLOAT16, values, &overflow),
              (std::vector<uint16_t>{0x7c00, 0xfc00, 0x7e00, 0xffff}));
    EXPECT_FALSE(overflow);
  }
}

// Each place in a long array, so that no lane of a register is forgotten.
TEST(HalfTest, Narrow_OneValueTooLarge_OverflowIsReported) {
  const float too_large[] = {FloatOf(0x7f7f8000), 65520.0f};
  for (const KernelSet& set : SupportedKernels()) {
    for (size_t f = 0; f < 2; ++f) {
      std::vector<float> values(150, 1.0f);
      for (float& value : values) {
        bool overflow = true;
        value = -std::nextafter(too_large[f], 0.0f);
        NarrowAll(set, kFormats[f].dtype, values, &overflow);
        ASSERT_FALSE(overflow) << set.name;
        value = -too_large[f];
        NarrowAll(set, kFormats[f].dtype, values, &overflow);
        ASSERT_TRUE(overflow) << set.name;
        value = 1.0f;
      }
    }
  }
}

TEST(HalfTest, Kernels_AnyLength_WriteNothingBehindTheEnd) {
  const std::vector<float> values(200, 1.5f);
  for (const KernelSet& set : SupportedKernels()) {
    for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
      const WireKernels& kernels = set.For(dtype);
      for (size_t count = 0; count < values.size(); ++count) {
        std::vector<uint8_t> wire(4 * values.size(), 0xab);
        kernels.narrow(values.data(), count, wire.data());
        ASSERT_EQ(wire[kernels.element_bytes * count], 0xab) << set.name;
        std::vector<float> back(values.size(), -1);
        kernels.widen(wire.data(), count, back.data());
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(back[i], i < count ? 1.5f : -1.0f);
      }
    }
  }
}

TEST(HalfTest, Widen_PiecesThatSplitElements_SameAsWhole) {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i);
  for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    const size_t element_bytes = SupportedKernels()[0].For(dtype).element_bytes;
    std::vector<uint8_t> wire(element_bytes * values.size());
    Narrow(values, dtype, wire.data());
    std::vector<float> whole(values.size()), cut(values.size());
    Widen({{wire.data(), wire.size()}}, dtype, absl::MakeSpan(whole));
    ByteSpans pieces;
    for (size_t at = 0, size = 0; at < wire.size(); at += size) {
      size = std::min<size_t>(1 + at % 37, wire.size() - at);
      pieces.push_back({wire.data() + at, size});
      pieces.push_back({});
    }
    Widen(pieces, dtype, absl::MakeSpan(cut));
    EXPECT_EQ(cut, whole);
  }
}

TEST(HalfTest, Narrow_Float32_IsACopy) {
  const std::vector<float> values = {1.0f, -kInf, FloatOf(1), std::numeric_limits<float>::max()};
  std::vector<float> copy(values.size());
  EXPECT_FALSE(Narrow(values, v1::DTYPE_FLOAT32, reinterpret_cast<uint8_t*>(copy.data())));
  EXPECT_EQ(copy, values);
}

}  // namespace
}  // namespace gradwire
