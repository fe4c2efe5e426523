// What the sums of a layout hold when; that they are the fold is aggregator_test.cc's.

#include "common/sums/layout_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/common/aggregation/test_terms.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointee;
using ::testing::SizeIs;

// Three ranks, a bucket of floats and one of rank 2's bytes, a piece each.
class LayoutSumsTest : public ::testing::Test {
 protected:
  LayoutSumsTest()
      : terms_({{4 * 150, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES, Rank(2)}}, 4096),
        sums_(LayoutId(3), terms_.view, terms_.buckets, Shard()) {}

  // Holds one chunk; its piece's result is made if that was the last one.
  Waits Hold(LayoutSums* sums, Chunk chunk, absl::Time now = absl::UnixEpoch()) {
    size_t piece = 0;
    const absl::StatusOr<Verdict> verdict = sums->Judge(chunk, &piece);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(*verdict, Verdict::kAccept);
    std::vector<Chunk> terms;
    if (!sums->Hold(std::move(chunk), piece, now, &terms)) return {};
    return sums->Publish(sums->Fold(terms));
  }
  void HoldStep(LayoutSums* sums, uint64_t step) {
    for (Chunk& chunk : terms_.StepOf(step, {0, 1, 2})) Hold(sums, std::move(chunk));
  }

  std::string BytesOf(const MeanChunk& mean) {
    return std::string(reinterpret_cast<const char*>(mean.data.get()), mean.bytes);
  }

  const TestTerms terms_;
  LayoutSums sums_;
};

TEST_F(LayoutSumsTest, Hold_LastTerm_GivesTheTermsByRank) {
  std::vector<Chunk> terms;
  EXPECT_FALSE(sums_.Hold(terms_.MakeChunk(0, 2, 0, 0), 0, SteadyNow(), &terms));
  EXPECT_FALSE(sums_.Hold(terms_.MakeChunk(0, 0, 0, 0), 0, SteadyNow(), &terms));
  EXPECT_TRUE(sums_.Hold(terms_.MakeChunk(0, 1, 0, 0), 0, SteadyNow(), &terms));
  ASSERT_THAT(terms, SizeIs(3));
  for (int rank : {0, 1, 2}) EXPECT_EQ(terms[rank].header.rank, Rank(rank));
}

TEST_F(LayoutSumsTest, Hold_BytesOfARootOtherThanRank0_ResultIsThoseBytes) {
  Hold(&sums_, terms_.MakeChunk(0, 2, 1, 0));
  ASSERT_THAT(*sums_.Results(Step(0)), SizeIs(1));
  EXPECT_EQ(BytesOf(*sums_.Results(Step(0))->front()), terms_.Of(2, 1));
}

TEST_F(LayoutSumsTest, Judge_BytesOfRank0ThatIsNotTheRoot_InvalidArgument) {
  size_t piece;
  const absl::Status status = sums_.Judge(terms_.MakeChunk(0, 0, 1, 0), &piece).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected only rank 2 in a bucket of bytes"));
}

TEST_F(LayoutSumsTest, Judge_BytesOfTheRootAgain_Duplicate) {
  Hold(&sums_, terms_.MakeChunk(0, 2, 1, 0));
  size_t piece;
  EXPECT_EQ(sums_.Judge(terms_.MakeChunk(0, 2, 1, 0), &piece).value(), Verdict::kDuplicate);
}

TEST_F(LayoutSumsTest, Missing_NoTermIsHere_AllRanksWhoseTermsLack) {
  EXPECT_THAT(sums_.Missing(), ElementsAre(0, 1, 2));
}

TEST_F(LayoutSumsTest, Missing_APieceIsBegun_OnlyTheRanksThatHoldItUp) {
  Hold(&sums_, terms_.MakeChunk(0, 2, 0, 0));
  Hold(&sums_, terms_.MakeChunk(0, 0, 0, 0));
  EXPECT_THAT(sums_.Missing(), ElementsAre(1));
}

// Ranks 1 and 2 have sent different buckets, as far as they may; rank 0 has sent nothing.
TEST_F(LayoutSumsTest, Missing_ARankWithAFullWindow_IsNotMissing) {
  const TestTerms terms({{kWindowBytes, v1::DTYPE_FLOAT32}, {kWindowBytes, v1::DTYPE_FLOAT32}},
                        kWindowBytes);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  Hold(&sums, terms.MakeChunk(0, 1, 0, 0));
  EXPECT_THAT(sums.Missing(), ElementsAre(0, 2));
  Hold(&sums, terms.MakeChunk(0, 2, 1, 0));
  EXPECT_THAT(sums.Missing(), ElementsAre(0));
  Hold(&sums, terms.MakeChunk(0, 0, 0, 0));
  EXPECT_THAT(sums.Missing(), ElementsAre(0, 1, 2)) << "each waits for another";
}

TEST_F(LayoutSumsTest, Missing_AWindowOfTermsOfSeveralPieces_IsFull) {
  const TestTerms terms({{kWindowBytes, v1::DTYPE_FLOAT32}, {64, v1::DTYPE_FLOAT32}},
                        kWindowBytes / 2);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  Hold(&sums, terms.MakeChunk(0, 2, 1, 0));
  Hold(&sums, terms.MakeChunk(0, 1, 0, 0));
  EXPECT_THAT(sums.Missing(), ElementsAre(0, 1, 2));
  Hold(&sums, terms.MakeChunk(0, 1, 0, kWindowBytes / 2));
  EXPECT_THAT(sums.Missing(), ElementsAre(0, 2));
}

// What is summed does not wait: rank 2 must send more.
TEST_F(LayoutSumsTest, Missing_ARankWhoseWindowIsSummed_IsMissing) {
  const TestTerms terms({{kWindowBytes, v1::DTYPE_FLOAT32}, {64, v1::DTYPE_FLOAT32}}, kWindowBytes);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  for (int rank : {0, 1, 2}) Hold(&sums, terms.MakeChunk(0, rank, 0, 0));
  for (int rank : {0, 1}) Hold(&sums, terms.MakeChunk(0, rank, 1, 0));
  EXPECT_THAT(sums.Missing(), ElementsAre(2));
}

TEST_F(LayoutSumsTest, Missing_OnlyBytesLack_TheirRoot) {
  for (int rank : {0, 1, 2}) Hold(&sums_, terms_.MakeChunk(0, rank, 0, 0));
  EXPECT_THAT(sums_.Missing(), ElementsAre(2));
}

TEST_F(LayoutSumsTest, Publish_LastResultOfAStep_HowLongAPieceWaitedForEachRank) {
  const auto at = [](int second) { return absl::FromUnixSeconds(second); };
  Hold(&sums_, terms_.MakeChunk(0, 2, 1, 0), at(1));
  Hold(&sums_, terms_.MakeChunk(0, 1, 0, 0), at(2));
  Hold(&sums_, terms_.MakeChunk(0, 2, 0, 0), at(3));
  EXPECT_THAT(Hold(&sums_, terms_.MakeChunk(0, 0, 0, 0), at(4)),
              ElementsAre(absl::Seconds(2), absl::ZeroDuration(), absl::Seconds(1)));
  EXPECT_EQ(sums_.open_step(), Step(1));
}

// Two pieces: the first one waits for long, the second one only briefly.
TEST_F(LayoutSumsTest, Publish_SeveralPieces_TheLongestWaitOfEachRankInThisStep) {
  const auto at = [](int second) { return absl::FromUnixSeconds(second); };
  const TestTerms terms({{4 * 150, v1::DTYPE_FLOAT32}}, 320);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  for (const int rank : {0, 1, 2}) Hold(&sums, terms.MakeChunk(0, rank, 0, 0), at(10 * rank));
  Hold(&sums, terms.MakeChunk(0, 1, 0, 320), at(30));
  Hold(&sums, terms.MakeChunk(0, 2, 0, 320), at(31));
  EXPECT_THAT(Hold(&sums, terms.MakeChunk(0, 0, 0, 320), at(33)),
              ElementsAre(absl::Seconds(3), absl::Seconds(10), absl::Seconds(20)));
  Waits waits;
  for (const uint64_t offset : {0, 320}) {
    for (const int rank : {0, 1, 2}) {
      waits = Hold(&sums, terms.MakeChunk(1, rank, 0, offset), at(40 + rank));
    }
  }
  EXPECT_THAT(waits, ElementsAre(absl::ZeroDuration(), absl::Seconds(1), absl::Seconds(2)));
}

TEST_F(LayoutSumsTest, Receiving_TwoBucketsAtOnce_CountsBoth) {
  const TestTerms terms({{4 * 150, v1::DTYPE_FLOAT32}, {4 * 150, v1::DTYPE_FLOAT32}}, 320);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  for (const int bucket : {0, 1}) {
    for (const int rank : {0, 1, 2}) Hold(&sums, terms.MakeChunk(0, rank, bucket, 0));
  }
  EXPECT_EQ(sums.receiving(), 2);
  for (const int rank : {0, 1, 2}) Hold(&sums, terms.MakeChunk(0, rank, 0, 320));
  EXPECT_EQ(sums.receiving(), 1);
}

TEST_F(LayoutSumsTest, Receiving_FromTheLastRanksFirstTermToTheLastTermOfTheBucket) {
  const TestTerms terms({{4 * 150, v1::DTYPE_FLOAT32}}, 320);  // two pieces
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, Shard());
  std::vector<int> receiving;
  for (const auto& [rank, offset] : std::vector<std::pair<int, uint64_t>>{
           {0, 0}, {0, 320}, {1, 0}, {2, 320}, {2, 0}, {1, 320}}) {
    Hold(&sums, terms.MakeChunk(0, rank, 0, offset));
    receiving.push_back(sums.receiving());
  }
  EXPECT_THAT(receiving, ElementsAre(0, 0, 0, 1, 1, 0));
}

TEST_F(LayoutSumsTest, Receiving_TermsOfOnePiece_NeverReceives) {
  for (Chunk& chunk : terms_.StepOf(0, {0, 1, 2})) {
    Hold(&sums_, std::move(chunk));
    EXPECT_EQ(sums_.receiving(), 0);
  }
}

// Checkpoints name what an aggregator keeps by its place.
TEST_F(LayoutSumsTest, MeanResiduals_ShareOfTwo_OwnPiecesOfCodedBucketsByTheirFirstElement) {
  const TestTerms terms({{40000, v1::DTYPE_FLOAT32}, {40000, v1::DTYPE_INT8}, {9, v1::DTYPE_BYTES}},
                        16384);
  LayoutSums sums(LayoutId(0), terms.view, terms.buckets, {2, {0}});
  const std::vector<MeanResidual> residuals = sums.MeanResiduals();
  ASSERT_THAT(residuals, SizeIs(2));  // of four; bucket 1 begins at the second owner
  for (const MeanResidual& residual : residuals) EXPECT_EQ(residual.bucket, Bucket(1));
  EXPECT_EQ(residuals[0].first, 3072u);
  EXPECT_EQ(residuals[0].values.size(), 3072u);
  EXPECT_EQ(residuals[1].first, 9216u);
  EXPECT_EQ(residuals[1].values.size(), 784u);
  LayoutSums others(LayoutId(0), terms.view, terms.buckets, {2, {1}});
  EXPECT_EQ(others.MeanResiduals().front().first, 0u);
}

// Of three pieces the first owner has two, the second one has one.
TEST_F(LayoutSumsTest, HasPieceFor_ShareOfTwo_ItsOwnPiecesAlone) {
  const TestTerms terms({{4 * 150, v1::DTYPE_FLOAT32}}, 256);
  const auto is_second = [](Bucket, size_t number_in_shard) { return number_in_shard == 1; };
  const LayoutSums first(LayoutId(0), terms.view, terms.buckets, {2, {0}});
  EXPECT_TRUE(first.HasPieceFor(is_second));
  const LayoutSums second(LayoutId(0), terms.view, terms.buckets, {2, {1}});
  EXPECT_FALSE(second.HasPieceFor(is_second));
  EXPECT_TRUE(second.HasPieceFor([](Bucket, size_t number) { return number == 0; }));
}

TEST_F(LayoutSumsTest, Publish_ShareOfBytesAlone_NothingWaitedForTheOthers) {
  LayoutSums bytes_alone(LayoutId(3), terms_.view, terms_.buckets, {2, {1}});
  EXPECT_THAT(Hold(&bytes_alone, terms_.MakeChunk(0, 2, 1, 0)),
              ElementsAre(absl::ZeroDuration(), absl::ZeroDuration(), absl::ZeroDuration()));
}

TEST_F(LayoutSumsTest, Results_ManySteps_ThoseOfTheOpenAndOneFinishedStep) {
  for (uint64_t step = 0; step < 3; ++step) HoldStep(&sums_, step);
  EXPECT_EQ(sums_.Results(Step(1)), nullptr);
  EXPECT_THAT(sums_.Results(Step(2)), Pointee(SizeIs(2)));
  EXPECT_THAT(sums_.Results(Step(3)), Pointee(SizeIs(0)));
  EXPECT_EQ(sums_.Results(Step(4)), nullptr);
  EXPECT_EQ(sums_.held_bytes(), 4 * 150 + 33);
}

// Of two owners the second one has the bytes alone: the root may have sent those of step 1,
// and nobody sends terms that tell whether the others read step 0's.
TEST_F(LayoutSumsTest, Results_ShareOfBytesAlone_ThoseOfTwoFinishedSteps) {
  LayoutSums bytes_alone(LayoutId(3), terms_.view, terms_.buckets, {2, {1}});
  for (uint64_t step = 0; step < 3; ++step) Hold(&bytes_alone, terms_.MakeChunk(step, 2, 1, 0));
  EXPECT_EQ(bytes_alone.Results(Step(0)), nullptr);
  EXPECT_THAT(bytes_alone.Results(Step(1)), Pointee(SizeIs(1)));
  EXPECT_THAT(bytes_alone.Results(Step(2)), Pointee(SizeIs(1)));
  EXPECT_EQ(bytes_alone.held_bytes(), 2 * 33);
}

TEST_F(LayoutSumsTest, HeaderOf_AResult_NamesItsLayoutAndStep) {
  HoldStep(&sums_, 0);
  const MeanChunk& mean = *sums_.Results(Step(0))->front();
  const ChunkHeader header = sums_.HeaderOf(Step(0), mean);
  EXPECT_EQ(header.layout, LayoutId(3));
  EXPECT_EQ(header.step, Step(0));
  EXPECT_EQ(header.total, terms_.buckets[mean.bucket.value()].bytes);
  EXPECT_EQ(header.checksum, Checksum({mean.data.get(), mean.bytes}));
}

}  // namespace
}  // namespace gradwire
