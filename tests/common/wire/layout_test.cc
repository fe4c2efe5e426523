#include "common/wire/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

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

Layout TwoTensors() {
  return {{"conv.weight", {64, 3, 3, 3}, "float32"}, {"bn.count", {}, "int64", true}};
}

TEST(LayoutTest, WireName_OtherTypes_AreBytes) {
  EXPECT_EQ(WireName(v1::DTYPE_BYTES), "bytes");
  EXPECT_EQ(WireName(static_cast<v1::DType>(77)), "bytes");
}

TEST(LayoutTest, WireSpecs_NoFloats_AreLeft) {
  EXPECT_TRUE(WireSpecs({}, v1::DTYPE_BFLOAT16).empty());
  const std::vector<BucketSpec> bytes = {{7, v1::DTYPE_BYTES, Rank(2)}};
  EXPECT_EQ(WireSpecs(bytes, v1::DTYPE_FLOAT16), bytes);
}

TEST(LayoutTest, IsCoded_Codecs_CountInFloats) {
  for (const v1::DType dtype : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_BYTES}) {
    EXPECT_FALSE(IsCoded(dtype));
  }
  int codecs = 0;
  for (int number = v1::DType_MIN; number <= v1::DType_MAX; ++number) {
    const auto dtype = static_cast<v1::DType>(number);
    if (!IsCoded(dtype)) continue;
    ++codecs;
    EXPECT_EQ(ElementBytes(dtype), 4) << v1::DType_Name(dtype);
  }
  EXPECT_GT(codecs, 0);
}

TEST(LayoutTest, CollectiveOf_Unspecified_FollowsTheType) {
  EXPECT_EQ(CollectiveOf({4, v1::DTYPE_BYTES}), v1::COLLECTIVE_BROADCAST);
  EXPECT_EQ(CollectiveOf({4, v1::DTYPE_BFLOAT16}), v1::COLLECTIVE_ALL_REDUCE);
  EXPECT_EQ(CollectiveOf({4, v1::DTYPE_FLOAT32, Rank(0), v1::COLLECTIVE_GATHER}),
            v1::COLLECTIVE_GATHER);
}

TEST(LayoutTest, Contributes_ByCollective_AllOrTheRootAlone) {
  for (const v1::Collective of_root :
       {v1::COLLECTIVE_BROADCAST, v1::COLLECTIVE_SCATTER, v1::COLLECTIVE_SEND_RECV}) {
    const BucketSpec spec{4, v1::DTYPE_FLOAT32, Rank(1), of_root};
    EXPECT_TRUE(Contributes(spec, Rank(1))) << v1::Collective_Name(of_root);
    EXPECT_FALSE(Contributes(spec, Rank(0))) << v1::Collective_Name(of_root);
  }
  for (const v1::Collective of_all : {v1::COLLECTIVE_ALL_REDUCE, v1::COLLECTIVE_GATHER}) {
    EXPECT_TRUE(Contributes({4, v1::DTYPE_FLOAT32, Rank(1), of_all}, Rank(0)));
  }
  EXPECT_FALSE(Contributes({4, v1::DTYPE_BYTES, Rank(1)}, Rank(0)));
}

TEST(LayoutTest, ToString_Tensor_HasNameTypeAndShape) {
  EXPECT_EQ(ToString(TwoTensors()[0]), "'conv.weight' float32 [64, 3, 3, 3]");
  EXPECT_EQ(ToString(TwoTensors()[1]), "'bn.count' int64 []");
}

TEST(LayoutTest, FirstDifference_Equal_IsEmpty) {
  EXPECT_EQ(FirstDifference(TwoTensors(), TwoTensors(), "rank 0"), "");
  EXPECT_EQ(FirstDifference(Layout{}, Layout{}, "rank 0"), "");
}

TEST(LayoutTest, FirstDifference_OfTensors_NamesTheFirst) {
  Layout other = TwoTensors();
  other[1].shape = {1};
  other[0].shape = {64, 3};
  EXPECT_EQ(FirstDifference(other, TwoTensors(), "rank 0"),
            "tensor 0: got 'conv.weight' float32 [64, 3], expected 'conv.weight' float32 "
            "[64, 3, 3, 3] (rank 0)");
}

TEST(LayoutTest, FirstDifference_OneMissing_CountsThem) {
  Layout other = TwoTensors();
  other.pop_back();
  EXPECT_EQ(FirstDifference(other, TwoTensors(), "rank 0"), "got 1 tensors, expected 2 (rank 0)");
}

TEST(LayoutTest, FirstDifference_OneMissingInTheMiddle_IsNamedAndTheyAreCounted) {
  Layout other = TwoTensors();
  other.erase(other.begin());
  EXPECT_THAT(
      FirstDifference(other, TwoTensors(), "rank 0"),
      AllOf(HasSubstr("expected 'conv.weight'"), EndsWith("; got 1 tensors, expected 2 (rank 0)")));
}

TEST(LayoutTest, FirstDifference_OfBuckets_NamesBytesAndType) {
  const std::vector<BucketSpec> got = {{4, v1::DTYPE_FLOAT32}, {8, v1::DTYPE_BYTES}};
  const std::vector<BucketSpec> expected = {{4, v1::DTYPE_FLOAT32}, {8, v1::DTYPE_FLOAT32}};
  EXPECT_EQ(FirstDifference(got, expected, "the coordinator"),
            "bucket 1: got 8 bytes of DTYPE_BYTES, expected 8 bytes of DTYPE_FLOAT32 "
            "(the coordinator)");
}

TEST(LayoutTest, FirstDifference_OfOperations_NamesThemAndTheirRoots) {
  const std::vector<BucketSpec> root = {{8, v1::DTYPE_BYTES, Rank(2)}};
  const std::vector<BucketSpec> none = {{8, v1::DTYPE_BYTES}};
  EXPECT_EQ(
      FirstDifference(root, none, "rank 0"),
      "bucket 0: got 8 bytes of DTYPE_BYTES with root 2, expected 8 bytes of DTYPE_BYTES (rank 0)");
  const std::vector<BucketSpec> gather = {{8, v1::DTYPE_BYTES, Rank(0), v1::COLLECTIVE_GATHER}};
  EXPECT_EQ(FirstDifference(gather, none, "rank 0"),
            "bucket 0: got 8 bytes of DTYPE_BYTES in COLLECTIVE_GATHER, expected 8 bytes of "
            "DTYPE_BYTES (rank 0)");
}

TEST(LayoutTest, Proto_ToAndFrom_IsTheSame) {
  const std::vector<BucketSpec> buckets = {
      {uint64_t{1} << 40, v1::DTYPE_FLOAT16, Rank(3), v1::COLLECTIVE_GATHER}, {0, v1::DTYPE_BYTES}};
  const v1::Layout proto = ToProto(TwoTensors(), buckets);
  EXPECT_EQ(TensorsFromProto(proto), TwoTensors());
  EXPECT_EQ(BucketsFromProto(proto.buckets()), buckets);
}

}  // namespace
}  // namespace gradwire
