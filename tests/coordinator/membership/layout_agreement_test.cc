#include "coordinator/membership/layout_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TestLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of two workers that carry four ranks.
class LayoutAgreementTest : public ::testing::Test {
 protected:
  absl::StatusOr<bool> Declare(int worker, const v1::Layout& layout) {
    return layouts_.Declare(Incarnation(worker), worker == 0 ? "ranks 0, 1" : "ranks 2, 3", layout);
  }
  // Why the first declaration of a layout is refused.
  std::string Refusal(const v1::Layout& layout) {
    const absl::Status status = Declare(0, layout).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  LayoutAgreement layouts_{4, 2};
};

TEST_F(LayoutAgreementTest, Declare_ByAll_IsAgreed) {
  EXPECT_EQ(*Declare(0, TestLayout()), false);
  EXPECT_EQ(*Declare(1, TestLayout()), true);
  EXPECT_THAT(layouts_.BucketsOf(LayoutId(0)), ElementsAre(BucketSpec{24, v1::DTYPE_FLOAT32}));
}

TEST_F(LayoutAgreementTest, Declare_ASecondOne_IsAgreedForItself) {
  v1::Layout second = TestLayout(1);
  second.mutable_buckets(0)->set_bytes(48);
  EXPECT_EQ(*Declare(0, TestLayout()), false);
  EXPECT_EQ(*Declare(0, second), false);
  EXPECT_EQ(*Declare(1, TestLayout()), true);
  EXPECT_EQ(*Declare(1, second), true);
  EXPECT_EQ(layouts_.BucketsOf(LayoutId(1))[0].bytes, 48u);
}

// As of a model with batch normalization.
TEST_F(LayoutAgreementTest, Declare_ServedLayoutWithBuffers_IsAgreed) {
  v1::Layout layout = TestLayout();
  layout.mutable_serving()->set_optimizer("sgd");
  v1::Bucket& buffers = *layout.add_buckets();
  buffers.set_dtype(v1::DTYPE_BYTES);
  buffers.set_bytes(8);
  EXPECT_EQ(Declare(0, layout).status(), absl::OkStatus());
}

TEST_F(LayoutAgreementTest, Declare_OutOfOrder_IsRefused) {
  EXPECT_EQ(Refusal(TestLayout(1)), "layout: got id 1, expected 0");
}

TEST_F(LayoutAgreementTest, Declare_Twice_IsRefused) {
  ASSERT_TRUE(Declare(0, TestLayout()).ok());
  EXPECT_EQ(Refusal(TestLayout()), "layout: got id 0, expected 1");
}

TEST_F(LayoutAgreementTest, Declare_OtherTensor_NamesItAndWhoWasFirst) {
  ASSERT_TRUE(Declare(1, TestLayout()).ok());
  v1::Layout layout = TestLayout();
  layout.set_name("vgg11");
  layout.mutable_tensors(0)->set_shape(0, 10);
  EXPECT_EQ(Refusal(layout),
            "layout 0 (vgg11): tensor 0: got 'fc1.weight' float32 [10, 3], expected 'fc1.weight' "
            "float32 [2, 3] (ranks 2, 3)");
}

TEST_F(LayoutAgreementTest, Declare_OtherBucket_NamesIt) {
  ASSERT_TRUE(Declare(1, TestLayout()).ok());
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_bytes(12);
  EXPECT_EQ(Refusal(layout),
            "layout 0: bucket 0: got 12 bytes of DTYPE_FLOAT32, expected 24 bytes of "
            "DTYPE_FLOAT32 (ranks 2, 3)");
}

TEST_F(LayoutAgreementTest, Declare_ServedOtherwise_SaysHow) {
  v1::Layout layout = TestLayout();
  layout.mutable_serving()->set_optimizer("sgd");
  layout.mutable_serving()->set_staleness(0);
  ASSERT_TRUE(Declare(1, layout).ok());
  EXPECT_EQ(layouts_.ServingOf(LayoutId(0)).optimizer(), "sgd");
  layout.mutable_serving()->set_staleness(2);
  EXPECT_EQ(Refusal(layout),
            "layout 0: serving: got 'optimizer: \"sgd\" staleness: 2', expected 'optimizer: "
            "\"sgd\" staleness: 0' (ranks 2, 3)");
}

TEST_F(LayoutAgreementTest, IsEvaluation_ByItsNameAndBytesFirst) {
  v1::Layout evaluation = TestLayout(1);
  evaluation.set_name(kEvaluationLayout);
  evaluation.mutable_buckets(0)->set_dtype(v1::DTYPE_BYTES);
  *evaluation.add_buckets() = TestLayout().buckets(0);
  v1::Layout model = TestLayout();
  model.set_name(kEvaluationLayout);
  v1::Layout other = evaluation;
  other.set_id(2);
  other.set_name("all_gather");
  for (const v1::Layout& layout : {model, evaluation, other}) {
    ASSERT_TRUE(Declare(0, layout).ok());
  }
  EXPECT_FALSE(layouts_.IsEvaluation(LayoutId(0)));
  EXPECT_TRUE(layouts_.IsEvaluation(LayoutId(1)));
  EXPECT_FALSE(layouts_.IsEvaluation(LayoutId(2)));
}

TEST_F(LayoutAgreementTest, Declare_ServedInAnotherType_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_serving()->set_optimizer("sgd");
  layout.mutable_buckets(0)->set_dtype(v1::DTYPE_BFLOAT16);
  EXPECT_EQ(Refusal(layout),
            "layout 0: bucket 0: got DTYPE_BFLOAT16, expected DTYPE_FLOAT32, because the layout is "
            "served");
}

TEST_F(LayoutAgreementTest, Declare_PartOfAFloat_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_bytes(22);
  EXPECT_EQ(
      Refusal(layout),
      "layout 0: bucket 0: got 22 bytes of dtype 1, expected at least one whole element of "
      "DTYPE_FLOAT32, DTYPE_BFLOAT16, DTYPE_FLOAT16, DTYPE_INT8, DTYPE_SPARSE or DTYPE_BYTES");
}

TEST_F(LayoutAgreementTest, Declare_UnknownDType_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_dtype(static_cast<v1::DType>(9));
  EXPECT_THAT(Refusal(layout), HasSubstr("got 24 bytes of dtype 9"));
}

TEST_F(LayoutAgreementTest, Declare_TooLarge_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_bytes(uint64_t{1} << 38);
  *layout.add_buckets() = TestLayout().buckets(0);
  EXPECT_EQ(Refusal(layout),
            "layout 0: bucket 1: got 24 bytes, expected at most 274877906944 in all buckets");
}

TEST_F(LayoutAgreementTest, Declare_RootBeyondTheWorldSize_IsRefused) {
  v1::Layout layout = TestLayout();
  v1::Bucket* bytes = layout.add_buckets();
  bytes->set_bytes(1);
  bytes->set_dtype(v1::DTYPE_BYTES);
  bytes->set_root(4);
  EXPECT_EQ(Refusal(layout), "layout 0: bucket 1: got root 4, expected 0 to 3");
}

TEST_F(LayoutAgreementTest, Declare_RootBeyondAnInt_IsRefused) {
  v1::Layout layout = TestLayout();
  v1::Bucket* bytes = layout.add_buckets();
  bytes->set_bytes(1);
  bytes->set_dtype(v1::DTYPE_BYTES);
  bytes->set_root(0xFFFFFFFF);
  EXPECT_EQ(Refusal(layout), "layout 0: bucket 1: got root -1, expected 0 to 3");
}

// Both together are 24 bytes in 64 bits.
TEST_F(LayoutAgreementTest, Declare_SumThatOverflows_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_bytes(uint64_t{1} << 38);
  *layout.add_buckets() = TestLayout().buckets(0);
  layout.mutable_buckets(1)->set_bytes(~uint64_t{0} - (uint64_t{1} << 38) + 25);
  EXPECT_THAT(Refusal(layout), HasSubstr("expected at most 274877906944 in all buckets"));
}

TEST_F(LayoutAgreementTest, Declare_MostBuckets_AreTakenAndOneMoreIsRefused) {
  v1::Layout layout = TestLayout();
  while (layout.buckets_size() < 1 << 16) *layout.add_buckets() = TestLayout().buckets(0);
  EXPECT_TRUE(Declare(1, layout).ok());
  *layout.add_buckets() = TestLayout().buckets(0);
  EXPECT_EQ(Refusal(layout),
            "layout 0: got 65537 buckets and 1 tensors, expected at most 65536 and 262144");
}

// Nothing of it would hold a step back until all ranks are there.
TEST_F(LayoutAgreementTest, Declare_NoGradients_IsRefused) {
  v1::Layout layout = TestLayout();
  layout.mutable_buckets(0)->set_dtype(v1::DTYPE_BYTES);
  EXPECT_EQ(Refusal(layout),
            "layout 0: buckets: got 1 and none of gradients, expected at least one of a "
            "floating-point dtype");
}

TEST_F(LayoutAgreementTest, Forget_WhoDeclaredNothing_AgreesOnAllThatTheOthersDeclared) {
  ASSERT_TRUE(Declare(0, TestLayout()).ok());
  ASSERT_TRUE(Declare(0, TestLayout(1)).ok());
  EXPECT_THAT(layouts_.Forget(Incarnation(1)), ElementsAre(LayoutId(0), LayoutId(1)));
}

TEST_F(LayoutAgreementTest, MissingOf_WhoHasDeclaredAll_IsNothing) {
  EXPECT_FALSE(layouts_.MissingOf(Incarnation(0)));
  ASSERT_TRUE(Declare(0, TestLayout()).ok());
  EXPECT_FALSE(layouts_.MissingOf(Incarnation(0)));
  EXPECT_EQ(layouts_.MissingOf(Incarnation(1)), "layout 0");
}

}  // namespace
}  // namespace gradwire
