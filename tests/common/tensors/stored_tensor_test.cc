#include "common/tensors/stored_tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace gradwire {
namespace {

constexpr TensorType kAll[] = {TensorType::kFloat64,  TensorType::kFloat32, TensorType::kFloat16,
                               TensorType::kBfloat16, TensorType::kInt64,   TensorType::kInt32,
                               TensorType::kInt16,    TensorType::kInt8,    TensorType::kUint8,
                               TensorType::kBool};

// Numbers of 16 bits as bytes.
std::string Halves(const std::vector<uint16_t>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), 2 * numbers.size());
}

TEST(StoredTensor, EachType_IsFoundByItsNames) {
  for (const TensorType type : kAll) {
    EXPECT_EQ(RowOf(type).type, type);
    EXPECT_EQ(FindTensorType(RowOf(type).name), type);
    EXPECT_EQ(FindStorageType(RowOf(type).storage), type);
  }
  EXPECT_FALSE(FindTensorType("F8").has_value());
  EXPECT_FALSE(FindStorageType("torch ComplexStorage").has_value());
}

TEST(StoredTensor, BytesOf_LargeShapes_AreNone) {
  EXPECT_EQ(BytesOf({}, TensorType::kFloat64), 8);
  EXPECT_EQ(BytesOf({3, 0}, TensorType::kFloat32), 0);
  EXPECT_FALSE(BytesOf({-1}, TensorType::kInt8).has_value());
  EXPECT_FALSE(BytesOf({int64_t{1} << 61}, TensorType::kFloat32).has_value());
  EXPECT_FALSE(BytesOf({0, int64_t{1} << 32, int64_t{1} << 32}, TensorType::kInt8).has_value());
}

TEST(StoredTensor, FindNonFinite_FirstInfinityOrNaN_OfEachFloatType) {
  const float floats[] = {1, -0.0F, std::numeric_limits<float>::max(),
                          -std::numeric_limits<float>::infinity()};
  const absl::string_view bytes(reinterpret_cast<const char*>(floats), sizeof(floats));
  EXPECT_EQ(FindNonFinite(TensorType::kFloat32, bytes), 3);
  EXPECT_EQ(FindNonFinite(TensorType::kFloat32, bytes.substr(0, 12)), -1);
  EXPECT_EQ(FindNonFinite(TensorType::kInt32, bytes), -1);
  const double number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FindNonFinite(TensorType::kFloat64, {reinterpret_cast<const char*>(&number), 8}), 0);
  EXPECT_EQ(FindNonFinite(TensorType::kFloat16, Halves({0x7bff, 0x7c00})), 1);
  EXPECT_EQ(FindNonFinite(TensorType::kBfloat16, Halves({0x7f7f, 0x7c00, 0xff81})), 2);
}

}  // namespace
}  // namespace gradwire
