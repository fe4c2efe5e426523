#include "common/aggregation/aggregator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "tests/common/aggregation/test_terms.h"

namespace gradwire {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kChunkBytes = 256;
constexpr size_t kPieces = 4;  // of a step
constexpr auto kInstant = std::chrono::milliseconds(50);

// Three ranks, a bucket of floats (two whole chunks and a rest) and one of rank 0's bytes.
class AggregatorTest : public ::testing::Test {
 protected:
  AggregatorTest()
      : terms_({{4 * 150, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}}, kChunkBytes),
        aggregator_(terms_.view, Shard(), AggregatorHooks()) {
    aggregator_.AddLayout(LayoutId(0), terms_.buckets);
  }

  void AddAll(std::vector<Chunk> chunks) { AddAll(std::move(chunks), &aggregator_); }
  static void AddAll(std::vector<Chunk> chunks, Aggregator* aggregator) {
    for (Chunk& chunk : chunks) {
      const absl::StatusOr<Verdict> verdict = aggregator->Add(std::move(chunk));
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      ASSERT_EQ(*verdict, Verdict::kAccept);
    }
  }

  absl::StatusOr<Mean> Next(MeanCursor* cursor) {
    return aggregator_.Next(cursor, SteadyNow() + absl::Seconds(10));
  }

  // The next results, one step's, put together by bucket.
  std::map<int, std::string> NextStep(MeanCursor* cursor) {
    std::map<int, std::string> results;
    for (size_t i = 0; i < kPieces; ++i) {
      const absl::StatusOr<Mean> mean = Next(cursor);
      EXPECT_TRUE(mean.ok()) << mean.status();
      if (!mean.ok()) break;
      std::string& bytes = results[mean->header.bucket.value()];
      bytes.resize(mean->header.total);
      std::memcpy(&bytes[mean->header.offset], mean->chunk->data.get(), mean->chunk->bytes);
    }
    return results;
  }

  void ExpectError(Chunk chunk, absl::StatusCode code, const std::string& text) {
    const absl::Status status = aggregator_.Add(std::move(chunk)).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const TestTerms terms_;
  Aggregator aggregator_;
  MeanCursor cursor_;
};

TEST_F(AggregatorTest, Add_AnyOrderOfArrival_ExactlyTheFold) {
  std::mt19937 random(1);
  for (uint64_t step = 0; step < 20; ++step) {
    std::vector<Chunk> chunks = terms_.StepOf(step, {0, 1, 2});
    std::shuffle(chunks.begin(), chunks.end(), random);
    AddAll(std::move(chunks));
    const std::map<int, std::string> results = NextStep(&cursor_);
    ASSERT_TRUE(results.at(0) == terms_.Result(0));
    ASSERT_TRUE(results.at(1) == terms_.Result(1));
  }
}

class AggregatorTimesTest : public AggregatorTest {
 protected:
  AggregatorTimesTest() : timed_(terms_.view, Shard(), Hooks()) {
    timed_.AddLayout(LayoutId(0), terms_.buckets);
  }
  AggregatorHooks Hooks() {
    AggregatorHooks hooks;
    hooks.on_step = [this](LayoutId layout, Step, const Waits&) { steps_of_.push_back(layout); };
    hooks.on_fold = [this](const TraceSpan& span) { folds_.push_back(span.bucket); };
    hooks.on_iteration = [this](const AggregationTimes& times) { iterations_.push_back(times); };
    return hooks;
  }
  static void Pass() { std::this_thread::sleep_for(kInstant); }
  // A step of layout 1.
  void AddStepOfBytes(uint64_t step) {
    for (Chunk& chunk : bytes_.StepOf(step, {0, 1, 2})) {
      chunk.header.run_id = terms_.view.run_id;
      AddAll({InLayout(1, std::move(chunk))}, &timed_);
    }
  }

  // Bytes of each rank, and a float to which all ranks contribute, as in an evaluation.
  const TestTerms bytes_{{{16, v1::DTYPE_BYTES, Rank(0)},
                          {16, v1::DTYPE_BYTES, Rank(1)},
                          {16, v1::DTYPE_BYTES, Rank(2)},
                          {4, v1::DTYPE_FLOAT32}},
                         kChunkBytes};

  std::vector<LayoutId> steps_of_;
  std::vector<Bucket> folds_;  // that were told
  std::vector<AggregationTimes> iterations_;
  Aggregator timed_;
};

TEST_F(AggregatorTimesTest, Iterations_FirstIsLeftOut_OthersAddUpToTheTimeBetweenSteps) {
  AddAll(terms_.StepOf(0, {0, 1, 2}), &timed_);
  EXPECT_THAT(iterations_, IsEmpty());
  const absl::Time begin = SteadyNow();
  AddAll(terms_.StepOf(1, {0, 1, 2}), &timed_);
  ASSERT_EQ(iterations_.size(), 1u);
  EXPECT_GT(iterations_[0].fold, absl::ZeroDuration());
  EXPECT_GT(iterations_[0].receive, absl::ZeroDuration());
  EXPECT_EQ(iterations_[0].send, absl::ZeroDuration());
  EXPECT_GE(iterations_[0].iteration(), absl::ZeroDuration());
  EXPECT_LE(iterations_[0].iteration(), SteadyNow() - begin + absl::Seconds(1));
}

// What is under way has some time at least; of what is not, there is none at all.
TEST_F(AggregatorTimesTest, Iterations_ReaderHasAMeanUntilItComesBack_ThatIsSending) {
  AddAll(terms_.StepOf(0, {0, 1, 2}), &timed_);
  for (size_t i = 0; i < kPieces; ++i) ASSERT_TRUE(timed_.Next(&cursor_, SteadyNow()).ok());
  Pass();
  EXPECT_TRUE(absl::IsDeadlineExceeded(timed_.Next(&cursor_, SteadyNow()).status()));
  Pass();
  AddAll(terms_.StepOf(1, {0, 1, 2}), &timed_);
  ASSERT_EQ(iterations_.size(), 1u);
  EXPECT_GE(iterations_[0].send, absl::FromChrono(kInstant));
  EXPECT_GE(iterations_[0].wait, absl::FromChrono(kInstant));
  EXPECT_EQ(iterations_[0].hidden_send, absl::ZeroDuration());
}

TEST_F(AggregatorTimesTest, Iterations_ReaderThatLeft_SendsNoMore) {
  AddAll(terms_.StepOf(0, {0, 1, 2}), &timed_);
  ASSERT_TRUE(timed_.Next(&cursor_, SteadyNow()).ok());
  timed_.Leave(&cursor_);
  AddAll(terms_.StepOf(1, {0, 1, 2}), &timed_);
  AddAll(terms_.StepOf(2, {0, 1, 2}), &timed_);
  ASSERT_EQ(iterations_.size(), 2u);
  EXPECT_EQ(iterations_[1].send + iterations_[1].hidden_send, absl::ZeroDuration());
}

TEST_F(AggregatorTimesTest, Iterations_WithAnEvaluation_AreLeftOut) {
  timed_.AddLayout(LayoutId(1), bytes_.buckets, {}, /*is_evaluation=*/true);
  AddAll(terms_.StepOf(0, {0, 1, 2}), &timed_);
  AddStepOfBytes(0);
  AddAll(terms_.StepOf(1, {0, 1, 2}), &timed_);
  EXPECT_THAT(iterations_, IsEmpty());
  AddAll(terms_.StepOf(2, {0, 1, 2}), &timed_);
  EXPECT_EQ(iterations_.size(), 1u);
  EXPECT_THAT(steps_of_, Each(LayoutId(0))) << "an evaluation is no step";
  EXPECT_EQ(folds_.size(), 3 * kPieces);
}

// As in a program on the library that calls several collectives in each step.
TEST_F(AggregatorTimesTest, Iterations_WithSeveralExchangesOfBytes_EndWithTheSteps) {
  timed_.AddLayout(LayoutId(1), bytes_.buckets);
  for (const uint64_t step : {0, 1, 2, 3}) {
    AddStepOfBytes(2 * step);
    AddStepOfBytes(2 * step + 1);
    AddAll(terms_.StepOf(step, {0, 1, 2}), &timed_);
    EXPECT_EQ(iterations_.size(), step);
  }
}

TEST_F(AggregatorTest, Next_AnotherReader_SameResultsAgain) {
  AddAll(terms_.StepOf(0, {0, 1, 2}));
  MeanCursor other;
  EXPECT_EQ(NextStep(&cursor_), NextStep(&other));
}

TEST_F(AggregatorTest, Next_FirstChunkComplete_ResultBeforeTheRest) {
  for (int rank : {2, 0, 1}) AddAll({terms_.MakeChunk(0, rank, 0, kChunkBytes)});
  const auto mean = Next(&cursor_);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(mean->header.offset, kChunkBytes);
}

TEST_F(AggregatorTest, Next_RanksMissing_DeadlineExceeded) {
  AddAll(terms_.StepOf(0, {1}));
  EXPECT_EQ(aggregator_.Next(&cursor_, SteadyNow() + absl::Milliseconds(10)).status(),
            absl::DeadlineExceededError("no mean is available yet"));
}

TEST_F(AggregatorTest, Next_AddedWhileWaiting_ResultAtOnce) {
  auto mean = std::async(std::launch::async,
                         [this] { return aggregator_.Next(&cursor_, absl::InfiniteFuture()); });
  EXPECT_EQ(mean.wait_for(kInstant), std::future_status::timeout);
  AddAll({terms_.MakeChunk(0, 0, 1, 0)});
  EXPECT_EQ(mean.get()->header.bucket, Bucket(1));
}

TEST_F(AggregatorTest, Next_StepLongOverForANewReader_OutOfRange) {
  for (uint64_t step = 0; step < 2; ++step) AddAll(terms_.StepOf(step, {0, 1, 2}));
  EXPECT_EQ(
      aggregator_.Next(&cursor_, absl::InfiniteFuture()).status(),
      absl::OutOfRangeError("the results of step 0 are no longer available: the open step is 2"));
}

// As after a loss.
TEST_F(AggregatorTest, Next_ViewThatBeginsLater_FromItsFirstStepOn) {
  View view = terms_.view;
  view.first_step = Step(5);
  Aggregator later(view, Shard(), AggregatorHooks());
  later.AddLayout(LayoutId(0), terms_.buckets);
  EXPECT_EQ(later.Add(terms_.MakeChunk(4, 1, 0, 0)).value(), Verdict::kCommitted);
  AddAll(terms_.StepOf(5, {0, 1, 2}), &later);
  const auto mean = later.Next(&cursor_, SteadyNow());
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(mean->header.step, Step(5));
  AddAll(terms_.StepOf(6, {0, 1, 2}), &later);
  MeanCursor late;
  EXPECT_EQ(
      later.Next(&late, SteadyNow()).status(),
      absl::OutOfRangeError("the results of step 5 are no longer available: the open step is 7"));
}

TEST_F(AggregatorTest, Next_StepsLongOverForAReaderThatContinues_GoesOnWithTheFirstHeld) {
  AddAll(terms_.StepOf(0, {0, 1, 2}));
  NextStep(&cursor_);
  for (uint64_t step = 1; step < 3; ++step) AddAll(terms_.StepOf(step, {0, 1, 2}));
  const auto mean = Next(&cursor_);
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(mean->header.step, Step(2));
}

TEST_F(AggregatorTest, MissingRanks_OneRankIsThrough_TheOthers) {
  AddAll(terms_.StepOf(0, {1}));
  EXPECT_THAT(aggregator_.MissingRanks(LayoutId(0), Step(0)), ElementsAre(Rank(0), Rank(2)));
}

TEST_F(AggregatorTest, MissingRanks_AnotherStepOrLayout_None) {
  AddAll(terms_.StepOf(0, {1}));
  EXPECT_THAT(aggregator_.MissingRanks(LayoutId(0), Step(1)), IsEmpty());
  EXPECT_THAT(aggregator_.MissingRanks(LayoutId(1), Step(0)), IsEmpty());
}

TEST_F(AggregatorTest, ServedModel_CountsInHeldBytesAndTellsWhoseModelIsMissing) {
  v1::Serving serving;
  serving.set_optimizer("sgd");
  aggregator_.AddLayout(LayoutId(1), terms_.buckets, serving);
  AddAll({terms_.MakeChunk(0, 1, 0, 0)});
  EXPECT_EQ(aggregator_.held_bytes(), kChunkBytes + 4 * 150 + 33);
  EXPECT_THAT(aggregator_.MissingRanks(LayoutId(1), Step(0)), ElementsAre(Rank(0)));
  EXPECT_THAT(aggregator_.MeanResiduals(LayoutId(1)), IsEmpty());
}

// Whether there is a torch that does not know it, or none.
TEST_F(AggregatorTest, Next_ServedModelWithoutItsOptimizer_SaysWhy) {
  v1::Serving serving;
  serving.set_optimizer("none such");
  aggregator_.AddLayout(LayoutId(1), terms_.buckets, serving);
  const absl::Status added = aggregator_.Add(InLayout(1, terms_.MakeChunk(0, 0, 0, 0))).status();
  EXPECT_EQ(added.code(), absl::StatusCode::kFailedPrecondition) << added;
  EXPECT_THAT(std::string(added.message()), HasSubstr("the optimizer of a served model: "));
  EXPECT_EQ(Next(&cursor_).status(), added);
}

TEST_F(AggregatorTest, Abort_WhileNextWaits_EndsWithReason) {
  const absl::Status reason = absl::AbortedError("rank 1 was lost in step 0");
  auto mean = std::async(std::launch::async,
                         [this] { return aggregator_.Next(&cursor_, absl::InfiniteFuture()); });
  EXPECT_EQ(mean.wait_for(kInstant), std::future_status::timeout);
  aggregator_.Abort(reason);
  EXPECT_EQ(mean.get().status(), reason);
}

TEST_F(AggregatorTest, Abort_WhileAddWaitsForItsLayout_EndsWithReason) {
  const absl::Status reason = absl::AbortedError("rank 1 was lost in step 0");
  auto added = std::async(std::launch::async, [this] {
    return aggregator_.Add(InLayout(1, terms_.MakeChunk(0, 0, 0, 0)));
  });
  EXPECT_EQ(added.wait_for(kInstant), std::future_status::timeout);
  aggregator_.Abort(reason);
  EXPECT_EQ(added.get().status(), reason);
}

TEST_F(AggregatorTest, Abort_AllCallsAfterIt_EndWithTheFirstReason) {
  const absl::Status reason = absl::AbortedError("rank 1 was lost in step 0");
  AddAll(terms_.StepOf(0, {0, 1, 2}));
  aggregator_.Abort(reason);
  aggregator_.Abort(absl::AbortedError("rank 2 was lost too"));
  EXPECT_EQ(aggregator_.Next(&cursor_, absl::InfiniteFuture()).status(), reason);
  EXPECT_EQ(aggregator_.Add(terms_.MakeChunk(1, 0, 0, 0)).status(), reason);
  const View& view = terms_.view;
  EXPECT_EQ(aggregator_.CheckReader(view.run_id, view.epoch, view.generation), reason);
}

TEST_F(AggregatorTest, Abort_TermsAreHeld_TheirMemoryIsLetGo) {
  Chunk chunk = terms_.MakeChunk(0, 1, 0, 0);
  const std::weak_ptr<const void> memory = chunk.owner;
  AddAll({std::exchange(chunk, Chunk())});
  EXPECT_FALSE(memory.expired());
  aggregator_.Abort(absl::AbortedError("the run is over"));
  EXPECT_TRUE(memory.expired());
}

TEST_F(AggregatorTest, Abort_TermsOfTwoLayoutsAreHeld_TheMemoryOfBothIsLetGo) {
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  std::vector<std::weak_ptr<const void>> memory;
  for (const int layout : {0, 1}) {
    Chunk chunk = InLayout(layout, terms_.MakeChunk(0, 1, 0, 0));
    memory.push_back(chunk.owner);
    AddAll({std::exchange(chunk, Chunk())});
  }
  aggregator_.Abort(absl::AbortedError("the run is over"));
  for (const int layout : {0, 1}) EXPECT_TRUE(memory[layout].expired()) << "layout " << layout;
}

TEST_F(AggregatorTest, CheckReader_OtherRun_PermissionDenied) {
  const View& view = terms_.view;
  EXPECT_TRUE(aggregator_.CheckReader(view.run_id, view.epoch, view.generation).ok());
  EXPECT_EQ(aggregator_.CheckReader(RunId{}, view.epoch, view.generation).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(AggregatorTest, CheckReader_OtherGeneration_Aborted) {
  EXPECT_EQ(aggregator_.CheckReader(terms_.view.run_id, terms_.view.epoch, Generation(9)),
            absl::AbortedError("reader of epoch 1 generation 9, this side is at 1 and 1"));
}

TEST_F(AggregatorTest, CheckReader_OtherEpoch_Aborted) {
  EXPECT_EQ(
      aggregator_.CheckReader(terms_.view.run_id, CoordinatorEpoch(2), terms_.view.generation),
      absl::AbortedError("reader of epoch 2 generation 1, this side is at 1 and 1"));
}

TEST_F(AggregatorTest, Add_LayoutIsNotAgreedYet_WaitsForIt) {
  auto added = std::async(std::launch::async, [this] {
    return aggregator_.Add(InLayout(1, terms_.MakeChunk(0, 1, 0, 0)));
  });
  EXPECT_EQ(added.wait_for(kInstant), std::future_status::timeout);
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  EXPECT_EQ(added.get().value(), Verdict::kAccept);
}

TEST_F(AggregatorTest, Add_OlderGenerationOfALayoutThatNeverComes_StaleAtOnce) {
  Chunk chunk = InLayout(1, terms_.MakeChunk(0, 1, 0, 0));
  chunk.header.generation = Generation(0);
  const absl::Time begin = SteadyNow();
  EXPECT_EQ(aggregator_.Add(std::move(chunk)).value(), Verdict::kStale);
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(5)) << "waited for the layout";
}

TEST_F(AggregatorTest, Add_SameChunkAgain_DuplicateAlsoAfterTheFold) {
  AddAll({terms_.MakeChunk(0, 1, 0, 0)});
  EXPECT_EQ(aggregator_.Add(terms_.MakeChunk(0, 1, 0, 0)).value(), Verdict::kDuplicate);
  AddAll({terms_.MakeChunk(0, 0, 0, 0), terms_.MakeChunk(0, 2, 0, 0)});
  EXPECT_EQ(aggregator_.Add(terms_.MakeChunk(0, 1, 0, 0)).value(), Verdict::kDuplicate);
}

TEST_F(AggregatorTest, Add_SameKeyOtherBytes_DataLoss) {
  AddAll({terms_.MakeChunk(0, 1, 0, 0)});
  ExpectError(terms_.MakeChunk(0, 1, 0, 0, /*salt=*/5), absl::StatusCode::kDataLoss,
              "came twice with different bytes");
}

TEST_F(AggregatorTest, Add_CommittedStep_Committed) {
  AddAll(terms_.StepOf(0, {0, 1, 2}));
  EXPECT_EQ(aggregator_.Add(terms_.MakeChunk(0, 1, 0, 0)).value(), Verdict::kCommitted);
}

TEST_F(AggregatorTest, Add_StepAfterTheOpenOne_OutOfRange) {
  ExpectError(terms_.MakeChunk(1, 1, 0, 0), absl::StatusCode::kOutOfRange, "expected step 0");
}

TEST_F(AggregatorTest, Add_CorruptPayload_DataLoss) {
  Chunk chunk = terms_.MakeChunk(0, 1, 0, 0);
  ++chunk.header.checksum;
  ExpectError(std::move(chunk), absl::StatusCode::kDataLoss, "step 0, rank 1, bucket 0, offset 0");
}

TEST_F(AggregatorTest, Add_OffTheGrid_InvalidArgument) {
  Chunk chunk = terms_.MakeChunk(0, 1, 0, 0);
  chunk.header.offset = 4;
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "expected pieces of 256 bytes");
}

TEST_F(AggregatorTest, Add_ShortChunk_InvalidArgument) {
  Chunk chunk = terms_.MakeChunk(0, 1, 0, 0);
  chunk.payload[0].remove_suffix(4);
  chunk.header.checksum = Checksum(chunk.payload);
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "got 252 bytes");
}

TEST_F(AggregatorTest, Add_EmptyChunkAtTheEnd_InvalidArgument) {
  Chunk chunk = terms_.MakeChunk(0, 1, 0, 0);
  chunk.payload.clear();
  chunk.header.offset = 600;
  chunk.header.checksum = Checksum(chunk.payload);
  ExpectError(std::move(chunk), absl::StatusCode::kInvalidArgument, "got 0 bytes");
}

TEST_F(AggregatorTest, Add_BytesFromAnotherRank_InvalidArgument) {
  ExpectError(terms_.MakeChunk(0, 1, 1, 0), absl::StatusCode::kInvalidArgument,
              "expected only rank 0 in a bucket of bytes");
}

TEST_F(AggregatorTest, HeldBytes_ManySteps_AtMostTwoGradientsOfResults) {
  const uint64_t gradient_bytes = 4 * 150 + 33;
  for (uint64_t step = 0; step < 10; ++step) {
    AddAll(terms_.StepOf(step, {0, 1, 2}));
    EXPECT_EQ(aggregator_.held_bytes(), gradient_bytes) << "one step's results are kept";
  }
}

TEST_F(AggregatorTest, Add_TwoLayouts_EachHasStepsOfItsOwn) {
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  for (uint64_t step = 0; step < 3; ++step) AddAll(terms_.StepOf(step, {0, 1, 2}));
  EXPECT_EQ(aggregator_.Add(InLayout(1, terms_.MakeChunk(0, 1, 0, 0))).value(), Verdict::kAccept);
  EXPECT_EQ(aggregator_.Add(terms_.MakeChunk(0, 1, 0, 0)).value(), Verdict::kCommitted);
  EXPECT_THAT(aggregator_.MissingRanks(LayoutId(1), Step(0)), ElementsAre(Rank(0), Rank(2)));
}

TEST_F(AggregatorTest, Next_TwoLayouts_ResultsOfBothInOneCursor) {
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  AddAll({InLayout(1, terms_.MakeChunk(0, 0, 1, 0))});
  EXPECT_EQ(Next(&cursor_)->header.layout, LayoutId(1));
  AddAll({terms_.MakeChunk(0, 0, 1, 0)});
  EXPECT_EQ(Next(&cursor_)->header.layout, LayoutId(0));
}

TEST_F(AggregatorTest, HeldBytes_TwoLayouts_SumOfBoth) {
  aggregator_.AddLayout(LayoutId(1), terms_.buckets);
  AddAll({terms_.MakeChunk(0, 1, 0, 0), InLayout(1, terms_.MakeChunk(0, 2, 0, 0))});
  EXPECT_EQ(aggregator_.held_bytes(), 2 * kChunkBytes);
}

// Of four owners the first two have the first two pieces of the floats, and the bytes.
TEST_F(AggregatorTest, Add_SeveralShares_StepIsOverWithAllOfThem) {
  Aggregator aggregator(terms_.view, {4, {0, 1}}, AggregatorHooks());
  aggregator.AddLayout(LayoutId(0), terms_.buckets);
  for (int rank : {0, 1, 2}) {
    AddAll({terms_.MakeChunk(0, rank, 0, 0), terms_.MakeChunk(0, rank, 0, kChunkBytes)},
           &aggregator);
  }
  EXPECT_EQ(aggregator.Add(terms_.MakeChunk(1, 1, 0, 0)).status().code(),
            absl::StatusCode::kOutOfRange);
  AddAll({terms_.MakeChunk(0, 0, 1, 0), terms_.MakeChunk(1, 1, 0, 0)}, &aggregator);
}

// Else all workers would wait for answers that never come.
TEST_F(AggregatorTest, Add_ServedModelHasNoOptimizer_ReadersGetTheReason) {
  v1::Serving serving;
  serving.set_optimizer("no such optimizer");
  aggregator_.AddLayout(LayoutId(1), terms_.buckets, serving);
  const absl::Status added = aggregator_.Add(InLayout(1, terms_.MakeChunk(0, 0, 0, 0))).status();
  EXPECT_EQ(added.code(), absl::StatusCode::kFailedPrecondition) << added;
  EXPECT_EQ(aggregator_.Next(&cursor_, SteadyNow()).status(), added);
}

TEST_F(AggregatorTest, Add_PieceOfAnotherShare_InvalidArgument) {
  Aggregator aggregator(terms_.view, {4, {0, 1}}, AggregatorHooks());
  aggregator.AddLayout(LayoutId(0), terms_.buckets);
  const absl::Status status = aggregator.Add(terms_.MakeChunk(0, 1, 0, 2 * kChunkBytes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got aggregator 0 and 1, expected aggregator 2 of 4"));
}

TEST_F(AggregatorTest, Hooks_StepDone_HearsItsLayoutAndTheWaitForEachRank) {
  std::vector<std::pair<LayoutId, Step>> steps;
  const auto on_step = [&](LayoutId layout, Step step, const Waits& waits) {
    steps.emplace_back(layout, step);
    EXPECT_EQ(waits.size(), 3);
    EXPECT_EQ(waits[2], absl::ZeroDuration());
    EXPECT_GT(waits[0], absl::ZeroDuration());
  };
  Aggregator aggregator(terms_.view, Shard(), {on_step, nullptr});
  aggregator.AddLayout(LayoutId(1), terms_.buckets);
  for (Chunk& chunk : terms_.StepOf(0, {2, 1, 0})) AddAll({InLayout(1, chunk)}, &aggregator);
  EXPECT_THAT(steps, ElementsAre(std::make_pair(LayoutId(1), Step(0))));
}

TEST_F(AggregatorTest, Hooks_SumMade_HearsItsStepAndBucket) {
  std::vector<TraceSpan> spans;
  Aggregator aggregator(terms_.view, Shard(),
                        {nullptr, [&](const TraceSpan& span) { spans.push_back(span); }});
  aggregator.AddLayout(LayoutId(0), terms_.buckets);
  AddAll({terms_.MakeChunk(0, 0, 1, 0)}, &aggregator);
  ASSERT_EQ(spans.size(), 1);
  EXPECT_EQ(spans[0].step, Step(0));
  EXPECT_EQ(spans[0].bucket, Bucket(1));
}

}  // namespace
}  // namespace gradwire
