#include "coordinator/membership/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/membership/test_hello.h"

namespace gradwire {
namespace {

using ::gradwire::testing::TestHello;
using ::testing::HasSubstr;

TEST(CheckForm, GoodHello_IsOk) { EXPECT_TRUE(CheckForm(TestHello(1, 3), 4).ok()); }

TEST(CheckForm, EqualWorldSize_IsOk) {
  v1::Hello hello = TestHello(1);
  hello.set_world_size(4);
  EXPECT_TRUE(CheckForm(hello, 4).ok());
}

TEST(CheckForm, OtherWorldSize_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.set_world_size(3);
  EXPECT_EQ(CheckForm(hello, 2),
            absl::InvalidArgumentError("world size: got 3, expected 2 (coordinator)"));
}

TEST(CheckForm, RankOutOfRange_IsRefused) {
  EXPECT_EQ(CheckForm(TestHello(1, 4), 4),
            absl::InvalidArgumentError("rank: got 4, expected 0 to 3"));
}

TEST(CheckForm, NoAddress_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.clear_address();
  const absl::Status status = CheckForm(hello, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("address: got '', expected HOST:PORT"));
}

TEST(CheckForm, PartOfAFloat_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.mutable_buckets(0)->set_bytes(22);
  EXPECT_EQ(CheckForm(hello, 2),
            absl::InvalidArgumentError("bucket 0: got 22 bytes of dtype 1, expected at least one "
                                       "whole element of DTYPE_FLOAT32, DTYPE_BFLOAT16, "
                                       "DTYPE_FLOAT16 or DTYPE_BYTES"));
}

// Nothing of it would hold a step back until all ranks are there.
TEST(CheckForm, NoGradients_IsRefused) {
  v1::Hello hello = TestHello(1, 1);
  hello.mutable_buckets(0)->set_dtype(v1::DTYPE_BYTES);
  EXPECT_EQ(CheckForm(hello, 2),
            absl::InvalidArgumentError("buckets: got 1 and none of gradients, expected at least "
                                       "one of a floating-point dtype"));
}

TEST(CheckForm, UnknownDType_IsRefused) {
  v1::Hello hello = TestHello(1);
  hello.mutable_buckets(0)->set_dtype(static_cast<v1::DType>(9));
  const absl::Status status = CheckForm(hello, 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("got 24 bytes of dtype 9"));
}

TEST(CheckTerms, EqualHello_IsOk) {
  EXPECT_TRUE(CheckTerms(TestHello(2), TermsOf(TestHello(1), "rank 0")).ok());
}

TEST(CheckTerms, OtherLayout_NamesFirstTensorThatDiffers) {
  v1::Hello hello = TestHello(2);
  hello.mutable_tensors(0)->set_shape(0, 10);
  EXPECT_EQ(CheckTerms(hello, TermsOf(TestHello(1), "rank 0")),
            absl::InvalidArgumentError("tensor 0: got 'fc1.weight' float32 [10, 3], expected "
                                       "'fc1.weight' float32 [2, 3] (rank 0)"));
}

TEST(CheckTerms, OtherSetting_NamesSettingAndWhoFixedIt) {
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["lr"] = "0.2";
  EXPECT_EQ(CheckTerms(hello, TermsOf(TestHello(1), "rank 3")),
            absl::InvalidArgumentError("setting 'lr': got 0.2, expected 0.1 (rank 3)"));
}

TEST(CheckTerms, MissingSetting_SaysNothingWasGot) {
  v1::Hello hello = TestHello(2);
  hello.mutable_settings()->erase("lr");
  EXPECT_EQ(CheckTerms(hello, TermsOf(TestHello(1), "rank 0")),
            absl::InvalidArgumentError("setting 'lr': got nothing, expected 0.1 (rank 0)"));
}

TEST(CheckTerms, SettingThatTheFirstHasNot_IsRefused) {
  v1::Hello hello = TestHello(2);
  (*hello.mutable_settings())["wire"] = "bf16";
  EXPECT_EQ(CheckTerms(hello, TermsOf(TestHello(1), "rank 0")),
            absl::InvalidArgumentError("setting 'wire': got bf16, expected nothing (rank 0)"));
}

TEST(CheckTerms, OtherBuckets_NamesFirstBucketThatDiffers) {
  v1::Hello hello = TestHello(2);
  hello.mutable_buckets(0)->set_bytes(12);
  EXPECT_EQ(CheckTerms(hello, TermsOf(TestHello(1), "rank 0")),
            absl::InvalidArgumentError("bucket 0: got 12 bytes of DTYPE_FLOAT32, expected 24 bytes "
                                       "of DTYPE_FLOAT32 (rank 0)"));
}

TEST(CheckReach, BothOnTheNetwork_IsOk) {
  EXPECT_TRUE(CheckReach("10.10.1.2:1", "10.10.1.3:1", "rank 0").ok());
}

TEST(CheckReach, BothOnLoopback_IsOk) {
  EXPECT_TRUE(CheckReach("127.0.0.1:1", "[::1]:1", "rank 0").ok());
}

TEST(CheckReach, NewcomerOnLoopback_SaysWhatToSetThere) {
  EXPECT_EQ(
      CheckReach("127.0.0.1:5", "10.10.1.3:7", "rank 0"),
      absl::InvalidArgumentError(
          "address: got 127.0.0.1:5, but rank 0 has 10.10.1.3:7, and 127.0.0.1:5 cannot be "
          "reached from other hosts; start this worker with --coordinator set to the address that "
          "the coordinator's host has in the common network, or with --advertise HOST"));
}

TEST(CheckReach, OthersOnLoopback_SaysWhatToSetThere) {
  EXPECT_EQ(CheckReach("10.10.1.3:7", "127.0.0.1:5", "rank 0"),
            absl::InvalidArgumentError(
                "address: got 10.10.1.3:7, but rank 0 has 127.0.0.1:5, and 127.0.0.1:5 cannot be "
                "reached from other hosts; start rank 0 with --coordinator set to the address that "
                "the coordinator's host has in the common network, or with --advertise HOST"));
}

}  // namespace
}  // namespace gradwire
