#include "common/wire/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradwire {
namespace {

using ::testing::HasSubstr;

class JudgeTest : public ::testing::Test {
 protected:
  JudgeTest() : buckets_{{400, v1::DTYPE_FLOAT32}, {22, v1::DTYPE_BYTES}} {
    receiver_.run_id.fill(1);
    receiver_.epoch = CoordinatorEpoch(2);
    receiver_.generation = Generation(5);
    receiver_.open_step = Step(7);
    receiver_.world_size = 4;
    receiver_.buckets = buckets_;
    header_.run_id.fill(1);
    header_.epoch = CoordinatorEpoch(2);
    header_.generation = Generation(5);
    header_.step = Step(7);
    header_.rank = Rank(3);
    header_.total = 400;
    header_.offset = 100;
  }

  absl::StatusOr<Verdict> Judge(uint64_t bytes = 300) {
    return JudgeHeader(header_, bytes, receiver_, held_);
  }
  void ExpectError(absl::StatusCode code, const std::string& text, uint64_t bytes = 300) {
    const absl::Status status = Judge(bytes).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::vector<BucketSpec> buckets_;
  ReceiverState receiver_;
  ChunkHeader header_;
  absl::optional<uint64_t> held_;
};

TEST_F(JudgeTest, JudgeHeader_Fits_Accept) { EXPECT_EQ(Judge().value(), Verdict::kAccept); }

TEST_F(JudgeTest, JudgeHeader_OtherRun_PermissionDenied) {
  header_.run_id.fill(9);
  ExpectError(absl::StatusCode::kPermissionDenied,
              "chunk of run 09090909090909090909090909090909, expected run 0101");
}

TEST_F(JudgeTest, JudgeHeader_OlderGeneration_Stale) {
  header_.generation = Generation(4);
  EXPECT_EQ(Judge().value(), Verdict::kStale);
}

TEST_F(JudgeTest, JudgeHeader_OlderEpoch_Stale) {
  header_.epoch = CoordinatorEpoch(1);
  EXPECT_EQ(Judge().value(), Verdict::kStale);
}

TEST_F(JudgeTest, JudgeHeader_NewerGeneration_AbortedSendLater) {
  header_.generation = Generation(6);
  ExpectError(absl::StatusCode::kAborted, "send it again later");
}

TEST_F(JudgeTest, JudgeHeader_NewerEpochOlderGeneration_AbortedSendLater) {
  header_.epoch = CoordinatorEpoch(3);
  header_.generation = Generation(1);
  ExpectError(absl::StatusCode::kAborted, "got epoch 3 generation 1, this side is at 2 and 5");
}

TEST_F(JudgeTest, JudgeHeader_CommittedStep_Committed) {
  header_.step = Step(6);
  EXPECT_EQ(Judge().value(), Verdict::kCommitted);
}

TEST_F(JudgeTest, JudgeHeader_StepAhead_OutOfRange) {
  header_.step = Step(8);
  ExpectError(absl::StatusCode::kOutOfRange, "expected step 7");
}

TEST_F(JudgeTest, JudgeHeader_RankTooHigh_InvalidArgument) {
  header_.rank = Rank(4);
  ExpectError(absl::StatusCode::kInvalidArgument, "rank 4, bucket 0, offset 100: expected a rank");
}

TEST_F(JudgeTest, JudgeHeader_BucketTooHigh_InvalidArgument) {
  header_.bucket = Bucket(2);
  ExpectError(absl::StatusCode::kInvalidArgument, "expected a bucket below 2");
}

TEST_F(JudgeTest, JudgeHeader_WrongTotal_InvalidArgument) {
  header_.total = 404;
  ExpectError(absl::StatusCode::kInvalidArgument, "got total 404, expected 400");
}

TEST_F(JudgeTest, JudgeHeader_WrongDtype_InvalidArgument) {
  header_.dtype = v1::DTYPE_BYTES;
  ExpectError(absl::StatusCode::kInvalidArgument,
              "got dtype DTYPE_BYTES (2), expected DTYPE_FLOAT32");
}

TEST_F(JudgeTest, JudgeHeader_UnknownDtype_InvalidArgument) {
  header_.dtype = static_cast<v1::DType>(77);
  ExpectError(absl::StatusCode::kInvalidArgument, "(77), expected DTYPE_FLOAT32");
}

TEST_F(JudgeTest, JudgeHeader_BehindTheEnd_InvalidArgument) {
  ExpectError(absl::StatusCode::kInvalidArgument, "got 304 bytes", 304);
}

TEST_F(JudgeTest, JudgeHeader_OffsetOverflows_InvalidArgument) {
  header_.offset = ~uint64_t{3};
  ExpectError(absl::StatusCode::kInvalidArgument, "got 300 bytes");
}

TEST_F(JudgeTest, JudgeHeader_SplitElement_InvalidArgument) {
  ExpectError(absl::StatusCode::kInvalidArgument, "expected whole 4-byte elements", 299);
}

TEST_F(JudgeTest, JudgeHeader_WireTypeOfTheLayout_WholeElementsOfTwoBytes) {
  for (const v1::DType dtype : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    buckets_[0].dtype = dtype;
    header_.dtype = dtype;
    header_.offset = 102;
    EXPECT_EQ(Judge(298).value(), Verdict::kAccept);
    ExpectError(absl::StatusCode::kInvalidArgument, "expected whole 2-byte elements", 297);
    header_.offset = 101;
    ExpectError(absl::StatusCode::kInvalidArgument, "expected whole 2-byte elements", 298);
  }
}

TEST_F(JudgeTest, JudgeHeader_OtherWireType_InvalidArgument) {
  header_.dtype = v1::DTYPE_BFLOAT16;
  ExpectError(absl::StatusCode::kInvalidArgument,
              "got dtype DTYPE_BFLOAT16 (3), expected DTYPE_FLOAT32");
}

TEST_F(JudgeTest, JudgeHeader_OddBytesInBucketOfBytes_Accept) {
  header_.bucket = Bucket(1);
  header_.total = 22;
  header_.offset = 1;
  header_.dtype = v1::DTYPE_BYTES;
  EXPECT_EQ(Judge(21).value(), Verdict::kAccept);
}

TEST_F(JudgeTest, JudgeHeader_Covers_OnlyAndAlwaysWithACodec) {
  header_.covers = 300;
  ExpectError(absl::StatusCode::kInvalidArgument, "got covers 300, expected 0");
  buckets_[0].dtype = header_.dtype = v1::DTYPE_INT8;
  receiver_.buckets = buckets_;
  EXPECT_EQ(Judge().value(), Verdict::kAccept);
  header_.covers = 0;
  ExpectError(absl::StatusCode::kInvalidArgument, "got covers 0, expected more than 0");
}

TEST_F(JudgeTest, JudgeHeader_SameKeySameBytes_Duplicate) {
  header_.checksum = 11;
  held_ = 11;
  EXPECT_EQ(Judge().value(), Verdict::kDuplicate);
}

TEST_F(JudgeTest, JudgeHeader_SameKeyOtherBytes_DataLoss) {
  header_.checksum = 11;
  held_ = 12;
  ExpectError(absl::StatusCode::kDataLoss, "came twice with different bytes");
}

TEST_F(JudgeTest, CheckPayload_WrongChecksum_DataLossNamesChunk) {
  const uint8_t bytes[] = {1, 2, 3, 4};
  Chunk chunk{header_, {bytes}, nullptr};
  chunk.header.checksum = Checksum(chunk.payload) + 1;
  const absl::Status status = CheckPayload(chunk);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 7, rank 3, bucket 0, offset 100"));
  chunk.header.checksum -= 1;
  EXPECT_TRUE(CheckPayload(chunk).ok());
}

}  // namespace
}  // namespace gradwire
