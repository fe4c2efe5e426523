#include "common/parameter_server/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gradwire::parameter_server_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// parameter - rate × gradient, as SGD without momentum.
class PlainOptimizer : public PieceOptimizer {
 public:
  explicit PlainOptimizer(absl::Span<float> parameters) : parameters_(parameters) {}
  void Step(const float* gradient, double rate) override {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i] -= static_cast<float>(rate) * gradient[i];
    }
  }

 private:
  const absl::Span<float> parameters_;
};

absl::StatusOr<MakePieceOptimizer> Plain(const v1::Serving&) {
  return [](absl::Span<float> parameters) { return std::make_unique<PlainOptimizer>(parameters); };
}

// A model of two float32 and a buffer of four bytes; three ranks, of which worker 2 carries the
// last two.
class ParameterServerTest : public ::testing::Test {
 protected:
  static constexpr Incarnation kWorkers[] = {Incarnation(11), Incarnation(12)};

  void Make(absl::optional<uint64_t> staleness, ParameterServer::LoadOptimizers load = &Plain) {
    view_.run_id = MakeRunId();
    view_.epoch = CoordinatorEpoch(1);
    view_.generation = Generation(1);
    view_.world_size = 3;
    view_.chunk_bytes = 1 << 20;
    view_.members = {{kWorkers[0], "a:1", {Rank(0)}}, {kWorkers[1], "b:1", {Rank(1), Rank(2)}}};
    v1::Serving serving;
    serving.set_optimizer("plain");
    if (staleness.has_value()) serving.set_staleness(*staleness);
    serving.set_steps(5);
    model_ = std::make_unique<ParameterServer>(LayoutId(0), view_, buckets_, share_, serving,
                                               std::move(load));
  }
  Chunk MakeChunk(uint64_t step, int rank, int bucket, std::string bytes) const {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    const ByteSpans payload = {{reinterpret_cast<const uint8_t*>(owner->data()), owner->size()}};
    Chunk chunk{{view_.run_id, view_.epoch, view_.generation, LayoutId(0), Step(step), Rank(rank),
                 Bucket(bucket), 0, owner->size(),
                 bucket == 0 ? v1::DTYPE_FLOAT32 : v1::DTYPE_BYTES, Checksum(payload)},
                payload,
                owner};
    chunk.header.clocks.rate = 0.5;
    return chunk;
  }
  static std::string Floats(float a, float b) {
    const float values[] = {a, b};
    return std::string(reinterpret_cast<const char*>(values), sizeof(values));
  }
  absl::StatusOr<Verdict> Add(Chunk chunk) {
    bool answered = false;
    return model_->Add(std::move(chunk), &answered);
  }
  absl::StatusOr<Verdict> Begin() { return Add(MakeChunk(0, 0, 0, Floats(10, 20))); }
  absl::StatusOr<Verdict> Push(uint64_t step, int rank, float gradient) {
    return Add(MakeChunk(step, rank, 0, Floats(gradient, 0)));
  }
  // Steps whose answers are there for a worker, and are taken.
  std::vector<uint64_t> Take(int worker) {
    std::vector<uint64_t> steps;
    while (auto answer = model_->Next(kWorkers[worker])) {
      steps.push_back(answer->header.step.value());
      last_ = *answer;
    }
    return steps;
  }
  // The first parameter in the last answer taken.
  float parameter() const {
    float value = 0;
    std::memcpy(&value, last_.chunk->data.get(), sizeof(value));
    return value;
  }

  View view_;
  std::vector<BucketSpec> buckets_ = {{8, v1::DTYPE_FLOAT32}};
  Shard share_;
  std::unique_ptr<ParameterServer> model_;
  ParameterServer::Answer last_;
};

TEST_F(ParameterServerTest, Begin_ByRank0_EachWorkerGetsIt) {
  Make(0);
  EXPECT_EQ(*Begin(), Verdict::kAccept);
  EXPECT_THAT(Take(0), ElementsAre(0));
  EXPECT_THAT(Take(1), ElementsAre(0));
  EXPECT_EQ(parameter(), 10);
  EXPECT_THAT(Take(1), IsEmpty());
}

TEST_F(ParameterServerTest, Begin_ByAnotherRank_InvalidArgument) {
  Make(0);
  const auto verdict = Add(MakeChunk(0, 1, 0, Floats(1, 1)));
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(verdict.status().message(), HasSubstr("expected the model of rank 0 in step 0"));
}

TEST_F(ParameterServerTest, NoStaleness_OneStepByTheMeanOfAll) {
  Make(0);
  ASSERT_TRUE(Begin().ok());
  Take(0), Take(1);
  EXPECT_TRUE(Push(1, 2, 3).ok());
  EXPECT_TRUE(Push(1, 0, 6).ok());
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_THAT(model_->Missing(Step(1)), ElementsAre(1));
  EXPECT_TRUE(Push(1, 1, 9).ok());
  EXPECT_THAT(Take(0), ElementsAre(1));
  EXPECT_EQ(parameter(), 7);  // 10 - 0.5 × 6
  EXPECT_EQ(last_.header.clocks.slowest, 1u);
  EXPECT_EQ(last_.header.clocks.fastest, 1u);
  EXPECT_THAT(Take(1), ElementsAre(1));
}

// In the order of ranks the large ones cancel out; in that of arrival rank 2's would be lost.
TEST_F(ParameterServerTest, NoStaleness_TermsInAnyOrder_AreSummedByRank) {
  Make(0);
  ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(Push(1, 2, 6).ok());
  EXPECT_TRUE(Push(1, 0, 1e9f).ok());
  EXPECT_TRUE(Push(1, 1, -1e9f).ok());
  EXPECT_THAT(Take(0), ElementsAre(0, 1));
  EXPECT_EQ(parameter(), 9);  // 10 - 0.5 × 6 / 3
}

TEST_F(ParameterServerTest, NoStaleness_SecondStep_HasItsOwnTermsAlone) {
  Make(0);
  ASSERT_TRUE(Begin().ok());
  for (const uint64_t step : {1, 2}) {
    for (const int rank : {1, 0, 2}) EXPECT_TRUE(Push(step, rank, step == 1 ? 6.0f : 2.0f).ok());
  }
  EXPECT_THAT(Take(0), ElementsAre(0, 1, 2));
  EXPECT_EQ(parameter(), 6);  // 10 - 0.5 × 6 - 0.5 × 2
}

TEST_F(ParameterServerTest, Staleness_EachTermAtOnceAtAThirdOfItsRate) {
  Make(1);
  ASSERT_TRUE(Begin().ok());
  Take(0);
  EXPECT_TRUE(Push(1, 0, 6).ok());
  EXPECT_THAT(Take(0), ElementsAre(1));
  EXPECT_EQ(parameter(), 9);
  EXPECT_EQ(last_.header.clocks.slowest, 0u);
  EXPECT_EQ(last_.header.clocks.fastest, 1u);
}

TEST_F(ParameterServerTest, Staleness_RankThatLeadsByIt_IsAnsweredOnceTheSlowestHasMoved) {
  Make(1);
  ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(Push(1, 0, 1).ok());
  EXPECT_TRUE(Push(2, 0, 1).ok());
  EXPECT_THAT(Take(0), ElementsAre(0, 1));
  EXPECT_THAT(model_->Missing(Step(2)), ElementsAre(1, 2));
  EXPECT_TRUE(Push(1, 1, 1).ok());
  EXPECT_THAT(model_->Missing(Step(2)), ElementsAre(2));
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_TRUE(Push(1, 2, 1).ok());
  EXPECT_THAT(Take(0), ElementsAre(2));
}

TEST_F(ParameterServerTest, Staleness_RankThatDoesNotWait_OutOfRange) {
  Make(1);
  ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(Push(1, 0, 1).ok());
  EXPECT_TRUE(Push(2, 0, 1).ok());
  const auto verdict = Push(3, 0, 1);
  EXPECT_EQ(verdict.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(verdict.status().message(), HasSubstr("2 ranks are missing"));
  EXPECT_EQ(Push(5, 0, 1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ParameterServerTest, NoBound_OnlyTheLastStepWaitsForAll) {
  Make(absl::nullopt);
  ASSERT_TRUE(Begin().ok());
  for (uint64_t step = 1; step <= 5; ++step) EXPECT_TRUE(Push(step, 0, 1).ok());
  EXPECT_THAT(Take(0), ElementsAre(0, 1, 2, 3, 4));
  for (uint64_t step = 1; step <= 5; ++step) {
    EXPECT_TRUE(Push(step, 1, 1).ok());
    EXPECT_TRUE(Push(step, 2, 1).ok());
  }
  EXPECT_THAT(Take(0), ElementsAre(5));
  const float of_worker_0 = parameter();
  EXPECT_THAT(Take(1), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(parameter(), of_worker_0);
}

TEST_F(ParameterServerTest, WorkerOfTwoRanks_IsAnsweredAfterBoth) {
  Make(absl::nullopt);
  ASSERT_TRUE(Begin().ok());
  Take(1);
  EXPECT_TRUE(Push(1, 1, 1).ok());
  EXPECT_THAT(Take(1), IsEmpty());
  EXPECT_TRUE(Push(1, 2, 1).ok());
  EXPECT_THAT(Take(1), ElementsAre(1));
}

// Its first rank may be a step ahead of its second.
TEST_F(ParameterServerTest, WorkerOfTwoRanks_OneIsAStepAhead_IsAnsweredForEachStep) {
  Make(absl::nullopt);
  ASSERT_TRUE(Begin().ok());
  Take(1);
  EXPECT_TRUE(Push(1, 1, 1).ok());
  EXPECT_TRUE(Push(2, 1, 1).ok());
  EXPECT_TRUE(Push(1, 2, 1).ok());
  EXPECT_THAT(Take(1), ElementsAre(1));
  EXPECT_TRUE(Push(2, 2, 1).ok());
  EXPECT_THAT(Take(1), ElementsAre(2));
}

// Who waits for answers is woken by this alone.
TEST_F(ParameterServerTest, Add_SaysWhetherThereAreAnswers) {
  Make(0);
  const auto answers = [this](Chunk chunk) {
    bool answered = false;
    EXPECT_TRUE(model_->Add(std::move(chunk), &answered).ok());
    return answered;
  };
  EXPECT_TRUE(answers(MakeChunk(0, 0, 0, Floats(10, 20))));
  EXPECT_FALSE(answers(MakeChunk(1, 0, 0, Floats(1, 1))));
  EXPECT_FALSE(answers(MakeChunk(1, 2, 0, Floats(1, 1))));
  EXPECT_TRUE(answers(MakeChunk(1, 1, 0, Floats(1, 1))));
}

TEST_F(ParameterServerTest, Answer_IsTheModelOfItsTime) {
  Make(absl::nullopt);
  ASSERT_TRUE(Begin().ok());
  EXPECT_TRUE(Push(1, 0, 6).ok());
  EXPECT_TRUE(Push(1, 1, 6).ok());
  EXPECT_THAT(Take(0), ElementsAre(0, 1));
  EXPECT_EQ(parameter(), 9);  // without rank 1's
}

TEST_F(ParameterServerTest, Resend_IsAcknowledgedAndChangesNothing) {
  Make(absl::nullopt);
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(*Begin(), Verdict::kCommitted);
  EXPECT_TRUE(Push(1, 0, 6).ok());
  EXPECT_EQ(*Push(1, 0, 6), Verdict::kCommitted);
  EXPECT_THAT(Take(0), ElementsAre(0, 1));
  EXPECT_EQ(parameter(), 9);
}

TEST_F(ParameterServerTest, Buffers_ThoseOfTheRoot) {
  buckets_.push_back({4, v1::DTYPE_BYTES});
  Make(absl::nullopt);
  ASSERT_TRUE(Add(MakeChunk(0, 0, 1, "zero")).ok());
  ASSERT_TRUE(Add(MakeChunk(1, 1, 1, "mine")).ok());
  ASSERT_TRUE(Add(MakeChunk(1, 2, 1, "mine")).ok());
  Take(1);
  EXPECT_EQ(std::memcmp(last_.chunk->data.get(), "zero", 4), 0);
  ASSERT_TRUE(Add(MakeChunk(1, 0, 1, "root")).ok());
  Take(0);
  EXPECT_EQ(std::memcmp(last_.chunk->data.get(), "root", 4), 0);
}

// A bucket of two blocks of the fold, each a piece: the sums of the second one begin with rank 1.
TEST_F(ParameterServerTest, BucketOfTwoPieces_EachHasItsPlaceAndItsOrderOfSums) {
  constexpr uint64_t kPiece = 16 << 10;
  buckets_ = {{2 * kPiece, v1::DTYPE_FLOAT32}};
  Make(0);
  view_.chunk_bytes = kPiece;
  v1::Serving serving;
  serving.set_staleness(0);
  serving.set_steps(5);
  model_ = std::make_unique<ParameterServer>(LayoutId(4), view_, buckets_, share_, serving, &Plain);
  const auto add = [&](uint64_t step, int rank, float value) {
    const std::vector<float> values(kPiece / sizeof(float), value);
    for (const uint64_t offset : {uint64_t{0}, kPiece}) {
      Chunk chunk = MakeChunk(step, rank, 0,
                              std::string(reinterpret_cast<const char*>(values.data()), kPiece));
      chunk.header.layout = LayoutId(4);
      chunk.header.offset = offset;
      chunk.header.total = 2 * kPiece;
      EXPECT_EQ(*Add(std::move(chunk)), Verdict::kAccept);
    }
  };
  add(0, 0, 10);
  add(1, 0, 6);
  add(1, 1, 1e9f);
  add(1, 2, -1e9f);
  std::map<uint64_t, float> updated;  // by offset
  while (auto answer = model_->Next(kWorkers[0])) {
    last_ = *answer;
    const ChunkHeader& header = last_.header;
    EXPECT_EQ(header.layout, LayoutId(4));
    EXPECT_EQ(header.total, 2 * kPiece);
    EXPECT_EQ(last_.chunk->number_in_shard, header.offset / kPiece);
    if (header.step == Step(1)) updated[header.offset] = parameter();
  }
  // In the first piece the 6 of rank 0 is lost beside the large values.
  EXPECT_THAT(updated, ElementsAre(Pair(0u, 10.0f), Pair(kPiece, 9.0f)));
}

TEST_F(ParameterServerTest, NoOptimizer_SaysWhy) {
  Make(0, [](const v1::Serving&) { return absl::FailedPreconditionError("no module"); });
  EXPECT_EQ(Begin().status(), absl::FailedPreconditionError("no module"));
}

TEST_F(ParameterServerTest, Stranger_GetsNothing) {
  Make(0);
  ASSERT_TRUE(Begin().ok());
  EXPECT_FALSE(model_->Next(Incarnation(99)).has_value());
}

TEST_F(ParameterServerTest, ChunkOfNoBucketOrRank_InvalidArgument) {
  Make(0);
  Chunk bucket = MakeChunk(0, 0, 0, Floats(1, 1));
  bucket.header.bucket = Bucket(7);
  EXPECT_EQ(Add(bucket).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Add(MakeChunk(0, 3, 0, Floats(1, 1))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ParameterServerTest, Missing_ModelIsNotThere_TheRootAlone) {
  Make(0);
  EXPECT_THAT(model_->Missing(Step(0)), ElementsAre(0));
  ASSERT_TRUE(Begin().ok());
  EXPECT_THAT(model_->Missing(Step(0)), IsEmpty());
  EXPECT_THAT(model_->Missing(Step(1)), ElementsAre(0, 1, 2));
}

TEST_F(ParameterServerTest, Missing_RanksHoldUpDifferentBuckets_AllOfThem) {
  buckets_.push_back({8, v1::DTYPE_BYTES});
  Make(0);
  ASSERT_TRUE(Begin().ok());
  ASSERT_TRUE(Add(MakeChunk(0, 0, 1, "buffers0")).ok());
  for (const int rank : {0, 1}) EXPECT_TRUE(Push(1, rank, 1).ok());
  for (const int rank : {0, 2}) EXPECT_TRUE(Add(MakeChunk(1, rank, 1, "buffers1")).ok());
  EXPECT_THAT(model_->Missing(Step(1)), ElementsAre(1, 2));
}

// Of two aggregators the second one has the second bucket.
TEST_F(ParameterServerTest, ShareOfSeveral_HoldsAndMissesItsOwnPiecesAlone) {
  buckets_.push_back({4, v1::DTYPE_BYTES});
  share_ = {2, {1}};
  Make(0);
  EXPECT_EQ(model_->held_bytes(), 4u);
  EXPECT_EQ(Begin().status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Add(MakeChunk(0, 0, 1, "zero")).ok());
  EXPECT_THAT(Take(1), ElementsAre(0));
  EXPECT_THAT(model_->Missing(Step(0)), IsEmpty());
}

}  // namespace
}  // namespace gradwire::parameter_server_test
