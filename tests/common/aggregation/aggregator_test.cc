#include "common/aggregation/aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "absl/time/clock.h"
#include "common/fold/fold.h"

namespace gradwire {
namespace {

using testing::HasSubstr;

constexpr uint64_t kChunkBytes = 256;

// Three ranks, a bucket of floats (two whole chunks and a rest) and one of bytes.
class AggregatorTest : public testing::Test {
 protected:
  AggregatorTest() : buckets_{{4 * 150, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}} {
    view_ = {MakeRunId(), CoordinatorEpoch(1), Generation(1), 3, Rank(0), {}, kChunkBytes};
    aggregator_.Configure(view_, buckets_, Share());
  }

  // What `rank` contributes to a bucket.
  std::string Term(int rank, int bucket, int salt = 0) {
    std::mt19937 random(100 * rank + 10 * bucket + salt);
    std::normal_distribution<float> normal;
    std::string bytes(buckets_[bucket].bytes + 3, '\0');
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float value = normal(random);
      std::memcpy(&bytes[i], &value, 4);
    }
    return bytes.substr(0, buckets_[bucket].bytes);
  }

  Chunk MakeChunk(uint64_t step, int rank, int bucket, uint64_t offset, int salt = 0) {
    auto bytes =
        std::make_shared<const std::string>(Term(rank, bucket, salt).substr(offset, kChunkBytes));
    const Pieces payload = {{reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}};
    return {{view_.run_id, view_.epoch, view_.generation, Step(step), Rank(rank), Bucket(bucket),
             offset, buckets_[bucket].bytes, buckets_[bucket].dtype, Checksum(payload), 0},
            payload,
            bytes};
  }

  // All chunks of one step of the given ranks.
  std::vector<Chunk> StepOf(uint64_t step, const std::vector<int>& ranks) {
    std::vector<Chunk> chunks;
    for (int rank : ranks) {
      for (uint64_t offset = 0; offset < buckets_[0].bytes; offset += kChunkBytes) {
        chunks.push_back(MakeChunk(step, rank, 0, offset));
      }
      if (rank == 0) chunks.push_back(MakeChunk(step, 0, 1, 0));
    }
    return chunks;
  }

  void AddAll(std::vector<Chunk> chunks) {
    for (Chunk& chunk : chunks) {
      const absl::StatusOr<Verdict> verdict = aggregator_.Add(std::move(chunk));
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      ASSERT_EQ(*verdict, Verdict::kAccept);
    }
  }

  // All results of a step, put together by bucket.
  std::map<int, std::string> ResultsOf(uint64_t step) {
    std::map<int, std::string> results;
    for (size_t index = 0;; ++index) {
      auto mean = aggregator_.Next(Step(step), index, absl::Now() + absl::Seconds(10));
      EXPECT_TRUE(mean.ok()) << mean.status();
      if (!mean.ok() || *mean == nullptr) return results;
      std::string& bytes = results[(*mean)->bucket.value()];
      bytes.resize(buckets_[(*mean)->bucket.value()].bytes);
      std::memcpy(&bytes[(*mean)->offset], (*mean)->data.get(), (*mean)->bytes);
    }
  }

  std::string ExpectedMean() {
    std::vector<Pieces> terms;
    std::vector<std::string> memory = {Term(0, 0), Term(1, 0), Term(2, 0)};
    for (const auto& bytes : memory) {
      terms.push_back({{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
    }
    std::vector<float> mean(150);
    Fold(terms, absl::MakeSpan(mean));
    return std::string(reinterpret_cast<const char*>(mean.data()), 600);
  }

  void ExpectError(Chunk chunk, absl::StatusCode code, const std::string& text) {
    const absl::Status status = aggregator_.Add(std::move(chunk)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::vector<BucketSpec> buckets_;
  View view_;
  Aggregator aggregator_;
};

TEST_F(AggregatorTest, Add_AnyOrderOfArrival_ExactlyTheFold) {
  std::mt19937 random(1);
  for (uint64_t step = 0; step < 20; ++step) {
    std::vector<Chunk> chunks = StepOf(step, {0, 1, 2});
    std::shuffle(chunks.begin(), chunks.end(), random);
    AddAll(std::move(chunks));
    const std::map<int, std::string> results = ResultsOf(step);
    ASSERT_TRUE(results.at(0) == ExpectedMean());
    ASSERT_TRUE(results.at(1) == Term(0, 1));
  }
}

TEST_F(AggregatorTest, Next_FinishedStep_SameResultsAgain) {
  AddAll(StepOf(0, {0, 1, 2}));
  EXPECT_EQ(ResultsOf(0), ResultsOf(0));
}

TEST_F(AggregatorTest, Next_FirstChunkComplete_ResultBeforeTheRest) {
  for (int rank : {2, 0, 1}) AddAll({MakeChunk(0, rank, 0, kChunkBytes)});
  const auto mean = aggregator_.Next(Step(0), 0, absl::Now() + absl::Seconds(10));
  ASSERT_TRUE(mean.ok());
  EXPECT_EQ((*mean)->offset, kChunkBytes);
}

TEST_F(AggregatorTest, Next_RanksMissing_DeadlineExceededNamesThem) {
  AddAll(StepOf(0, {1}));
  const absl::Status status =
      aggregator_.Next(Step(0), 0, absl::Now() + absl::Milliseconds(10)).status();
  EXPECT_EQ(status, absl::DeadlineExceededError("step 0: gradients of rank 0, 2 are missing"));
}

TEST_F(AggregatorTest, Next_StepLongOver_OutOfRange) {
  for (uint64_t step = 0; step < 2; ++step) AddAll(StepOf(step, {0, 1, 2}));
  const absl::Status status = aggregator_.Next(Step(0), 0, absl::InfiniteFuture()).status();
  EXPECT_EQ(status, absl::OutOfRangeError("results of step 0 are not held: the open step is 2"));
}

TEST_F(AggregatorTest, Next_StepLongOverForAReaderThatContinues_ItsEnd) {
  for (uint64_t step = 0; step < 3; ++step) AddAll(StepOf(step, {0, 1, 2}));
  const auto mean = aggregator_.Next(Step(0), 4, absl::InfiniteFuture(), true);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(*mean, nullptr);
}

// Of two owners the second one has the bucket of bytes alone: rank 0 may have sent its
// bytes of step 1, and nobody sends terms that tell whether the others read step 0's.
TEST_F(AggregatorTest, Next_ShareOfBytesAlone_ResultsOfTwoFinishedSteps) {
  view_.chunk_bytes = 4096;
  Aggregator bytes_alone;
  bytes_alone.Configure(view_, buckets_, {2, 1});
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(bytes_alone.Add(MakeChunk(step, 0, 1, 0)).ok());
  }
  const auto bytes = bytes_alone.Next(Step(0), 0, absl::InfiniteFuture());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->bytes, buckets_[1].bytes);
  EXPECT_EQ(bytes_alone.held_bytes(), 2 * buckets_[1].bytes);
}

TEST_F(AggregatorTest, Abort_WhileWaiting_AllCallsEndWithReason) {
  const absl::Status reason = absl::AbortedError("rank 1 was lost in step 0");
  aggregator_.Abort(reason);
  EXPECT_EQ(aggregator_.Next(Step(0), 0, absl::InfiniteFuture()).status(), reason);
  EXPECT_EQ(aggregator_.Add(MakeChunk(0, 0, 0, 0)).status(), reason);
}

TEST_F(AggregatorTest, CheckReader_OtherRun_PermissionDenied) {
  EXPECT_TRUE(aggregator_.CheckReader(view_.run_id, view_.epoch, view_.generation).ok());
  EXPECT_EQ(aggregator_.CheckReader(RunId{}, view_.epoch, view_.generation).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(AggregatorTest, CheckReader_OtherGeneration_Aborted) {
  EXPECT_EQ(aggregator_.CheckReader(view_.run_id, view_.epoch, Generation(9)),
            absl::AbortedError("reader of epoch 1 generation 9, this side is at 1 and 1"));
}

TEST_F(AggregatorTest, Add_BeforeConfigure_FailedPrecondition) {
  Aggregator fresh;
  EXPECT_EQ(fresh.Add(MakeChunk(0, 0, 0, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(AggregatorTest, Add_SameChunkAgain_DuplicateAlsoAfterTheFold) {
  AddAll({MakeChunk(0, 1, 0, 0)});
  EXPECT_EQ(aggregator_.Add(MakeChunk(0, 1, 0, 0)).value(), Verdict::kDuplicate);
  AddAll({MakeChunk(0, 0, 0, 0), MakeChunk(0, 2, 0, 0)});
  EXPECT_EQ(aggregator_.Add(MakeChunk(0, 1, 0, 0)).value(), Verdict::kDuplicate);
}

TEST_F(AggregatorTest, Add_SameKeyOtherBytes_DataLoss) {
  AddAll({MakeChunk(0, 1, 0, 0)});
  ExpectError(MakeChunk(0, 1, 0, 0, /*salt=*/5), absl::StatusCode::kDataLoss,
              "came twice with different bytes");
}

TEST_F(AggregatorTest, Add_CommittedStep_Committed) {
  AddAll(StepOf(0, {0, 1, 2}));
  EXPECT_EQ(aggregator_.Add(MakeChunk(0, 1, 0, 0)).value(), Verdict::kCommitted);
}

TEST_F(AggregatorTest, Add_CorruptPayload_DataLoss) {
  Chunk chunk = MakeChunk(0, 1, 0, 0);
  ++chunk.header.checksum;
  ExpectError(std::move(chunk), absl::StatusCode::kDataLoss, "step 0, rank 1, bucket 0, offset 0");
}

TEST_F(AggregatorTest, Add_OffTheGrid_InvalidArgument) {
  Chunk chunk = MakeChunk(0, 1, 0, 0);
  chunk.header.offset = 4;
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "expected pieces of 256 bytes");
}

TEST_F(AggregatorTest, Add_ShortChunk_InvalidArgument) {
  Chunk chunk = MakeChunk(0, 1, 0, 0);
  chunk.payload[0].remove_suffix(4);
  chunk.header.checksum = Checksum(chunk.payload);
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "got 252 bytes");
}

TEST_F(AggregatorTest, Add_EmptyChunkAtTheEnd_InvalidArgument) {
  Chunk chunk = MakeChunk(0, 1, 0, 0);
  chunk.payload.clear();
  chunk.header.offset = 600;
  chunk.header.checksum = Checksum(chunk.payload);
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "got 0 bytes");
}

TEST_F(AggregatorTest, Add_BytesFromAnotherRank_InvalidArgument) {
  Chunk chunk = MakeChunk(0, 1, 1, 0);
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument,
              "expected only rank 0 in a bucket of bytes");
}

TEST_F(AggregatorTest, HeldBytes_ManySteps_AtMostTwoGradientsOfResults) {
  const uint64_t gradient_bytes = 4 * 150 + 33;
  for (uint64_t step = 0; step < 10; ++step) {
    AddAll(StepOf(step, {0, 1, 2}));
    EXPECT_EQ(aggregator_.held_bytes(), gradient_bytes) << "one step's results are kept";
  }
}

TEST_F(AggregatorTest, Observer_StepDone_HearsEachRanksArrival) {
  std::vector<uint64_t> steps;
  aggregator_.set_observer([&](Step step, const Arrivals& arrivals) {
    steps.push_back(step.value());
    EXPECT_EQ(arrivals.size(), 3);
    EXPECT_LE(arrivals[2], arrivals[0]);
  });
  AddAll(StepOf(0, {2, 1, 0}));
  EXPECT_THAT(steps, testing::ElementsAre(0));
}

}  // namespace
}  // namespace gradwire
