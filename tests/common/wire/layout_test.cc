#include "common/wire/layout.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(LayoutTest, WireSpecs_HalfTypes_HalveFloatsAndKeepBytes) {
  const std::vector<BucketSpec> floats = {{400, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}};
  for (const v1::DType wire : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    EXPECT_EQ(WireSpecs(floats, wire),
              (std::vector<BucketSpec>{{200, wire}, {33, v1::DTYPE_BYTES}}));
  }
}

TEST(LayoutTest, WireSpecs_Float32_IsTheLayout) {
  const std::vector<BucketSpec> floats = {{400, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}};
  EXPECT_EQ(WireSpecs(floats, v1::DTYPE_FLOAT32), floats);
}

TEST(LayoutTest, ElementBytes_UnknownType_Zero) {
  EXPECT_EQ(ElementBytes(static_cast<v1::DType>(77)), 0);
  EXPECT_EQ(ElementBytes(v1::DTYPE_UNSPECIFIED), 0);
}

TEST(LayoutTest, ParseWire_AllNames_AndBack) {
  for (const std::string& name : WireNames()) EXPECT_EQ(WireName(ParseWire(name).value()), name);
}

TEST(LayoutTest, ParseWire_OtherName_InvalidArgumentNamesAll) {
  EXPECT_EQ(ParseWire("int8").status(),
            absl::InvalidArgumentError("wire type: got 'int8', expected fp32, bf16, fp16"));
}

}  // namespace
}  // namespace gradwire
