#include "common/aggregation/aggregation_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/caller.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "tests/common/aggregation/test_terms.h"
#include "tests/support/sealed_chunk.h"

namespace gradwire {
namespace {

constexpr uint64_t kMeanBytes = 1 << 20;
constexpr uint64_t kBucketBytes = 4 * kMeanBytes;
// Of means in all, more than a connection takes for a reader that does not read.
constexpr int kManySteps = 8;
constexpr Incarnation kMember{7};

// Three ranks whose terms are at hand, and a server of their means.
class AggregationServiceTest : public ::testing::Test {
 protected:
  AggregationServiceTest()
      : terms_({{kBucketBytes, v1::DTYPE_FLOAT32}}, kMeanBytes),
        view_(WithAMember(terms_.view)),
        aggregator_(std::make_shared<Aggregator>(
            view_, Shard(),
            AggregatorHooks{nullptr, nullptr,
                            [this](const AggregationTimes& times) { last_ = times; }})),
        server_(StartGrpcServer("127.0.0.1:0", {&service_}).value()),
        channel_(MakeChannel(server_.address)),
        stub_(v1::Aggregation::NewStub(channel_)),
        chunks_(terms_.StepOf(0, {0, 1, 2})) {
    aggregator_->AddLayout(LayoutId(0), terms_.buckets);
    service_.Serve(aggregator_);
  }
  ~AggregationServiceTest() override {
    service_.Abort(absl::AbortedError("the test is over"));
    server_.Shutdown();
  }

  void AddStep() {
    for (Chunk& chunk : chunks_) {
      chunk.header.step = Step(step_);
      ASSERT_TRUE(aggregator_->Add(chunk).ok());
    }
    ++step_;
  }
  v1::ScatterRequest Request() const {
    v1::ScatterRequest request;
    request.set_run_id(ToBytes(view_.run_id));
    request.set_epoch(view_.epoch.value());
    request.set_generation(view_.generation.value());
    return request;
  }
  // The first chunk of rank 0, of whatever values.
  v1::Chunk FirstChunk() const {
    v1::Chunk chunk;
    chunk.set_run_id(ToBytes(view_.run_id));
    chunk.set_epoch(view_.epoch.value());
    chunk.set_generation(view_.generation.value());
    chunk.set_total(kBucketBytes);
    chunk.set_dtype(v1::DTYPE_FLOAT32);
    chunk.set_payload(std::string(kMeanBytes, '1'));
    SealChunk(&chunk);
    return chunk;
  }
  bool IsIdle() { return service_.WaitUntilIdle(SteadyNow()); }
  // False if it stays idle.
  bool BecomesBusy() {
    const absl::Time deadline = SteadyNow() + absl::Seconds(60);
    while (IsIdle() && SteadyNow() < deadline) std::this_thread::yield();
    return !IsIdle();
  }
  bool BecomesIdle() { return service_.WaitUntilIdle(SteadyNow() + absl::Seconds(60)); }
  bool Sends() const { return last_.send + last_.hidden_send > absl::ZeroDuration(); }

  static View WithAMember(View view) {
    view.members = {{kMember, "127.0.0.1:1", {Rank(0), Rank(1), Rank(2)}}};
    return view;
  }

  const TestTerms terms_;
  const View view_;
  uint64_t step_ = 0;
  AggregationTimes last_;                          // of the last iteration that counts
  std::atomic<int> errors_ = 0;                    // that calls ended with
  std::atomic<uint64_t> received_ = 0, sent_ = 0;  // bytes of payloads
  AggregationService service_{{[this](uint64_t bytes) { received_ += bytes; },
                               [this](uint64_t bytes) { sent_ += bytes; },
                               [this](absl::StatusCode) { ++errors_; }}};
  const std::shared_ptr<Aggregator> aggregator_;
  GrpcServer server_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Aggregation::Stub> stub_;
  std::vector<Chunk> chunks_;  // of a step
};

// Of all threads of this process.
double CpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Longer than a stranger may wait. The worker that serves here may compute all the while.
TEST_F(AggregationServiceTest, Missing_MemberWaitsLongForAViewToCome_TakesNoCpu) {
  grpc::ClientContext context;
  SayWho(kMember, &context);
  context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(13)));
  v1::MissingRequest request;
  request.set_run_id(ToBytes(view_.run_id));
  request.set_epoch(view_.epoch.value());
  request.set_generation(view_.generation.value() + 1);
  v1::MissingReply reply;
  const double begun = CpuSeconds();
  const grpc::Status status = stub_->Missing(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_LT(CpuSeconds() - begun, 1);
}

// The first chunk of rank 0 in one layout, and that of rank 1 in another.
TEST_F(AggregationServiceTest, Missing_OfTwoLayouts_TheRanksOfTheOneThatWasAskedFor) {
  aggregator_->AddLayout(LayoutId(1), terms_.buckets);
  ASSERT_TRUE(aggregator_->Add(chunks_[0]).ok());
  ASSERT_TRUE(aggregator_->Add(InLayout(1, chunks_[kBucketBytes / kMeanBytes])).ok());
  const auto missing = [this](uint32_t layout, uint64_t step) {
    grpc::ClientContext context;
    v1::MissingRequest request;
    request.set_run_id(ToBytes(view_.run_id));
    request.set_epoch(view_.epoch.value());
    request.set_generation(view_.generation.value());
    request.set_layout(layout);
    request.set_step(step);
    v1::MissingReply reply;
    EXPECT_TRUE(stub_->Missing(&context, request, &reply).ok());
    return std::vector<int>(reply.ranks().begin(), reply.ranks().end());
  };
  EXPECT_THAT(missing(0, 0), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(missing(1, 0), ::testing::ElementsAre(0, 2));
  EXPECT_THAT(missing(1, 1), ::testing::IsEmpty());
}

// The coordinator's metrics show them.
TEST_F(AggregationServiceTest, Observer_OneChunkInAndAllMeansOut_HearsOfTheBytesOfEachWay) {
  AddStep();
  grpc::ClientContext reads;
  const auto reader = stub_->Scatter(&reads, Request());
  v1::Chunk mean;
  for (uint64_t bytes = 0; bytes < kBucketBytes; bytes += kMeanBytes) {
    ASSERT_TRUE(reader->Read(&mean));
  }
  grpc::ClientContext context;
  v1::GatherReply reply;
  const auto writer = stub_->Gather(&context, &reply);
  writer->Write(FirstChunk());
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  reads.TryCancel();
  server_.Shutdown();  // once all calls have ended
  EXPECT_EQ(received_, kMeanBytes);
  EXPECT_EQ(sent_, kBucketBytes);
}

// This service has no memory in common with anybody.
TEST_F(AggregationServiceTest, Gather_SlotInPlaceOfAPayload_RefusedAndNamed) {
  v1::Chunk chunk = FirstChunk();
  chunk.clear_payload();
  chunk.set_slot(3);
  chunk.set_slot_bytes(kMeanBytes);
  SealChunk(&chunk);
  grpc::ClientContext context;
  v1::GatherReply reply;
  const auto writer = stub_->Gather(&context, &reply);
  writer->Write(chunk);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("got slot 3, expected a payload"));
}

TEST_F(AggregationServiceTest, Scatter_ReaderGoesInTheMidstOfAMean_SendsNoMore) {
  AddStep();
  grpc::ClientContext context;
  const auto reader = stub_->Scatter(&context, Request());
  v1::Chunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  for (int i = 0; i < kManySteps; ++i) AddStep();
  ASSERT_TRUE(Sends());  // what the reader does not take
  context.TryCancel();
  const absl::Time deadline = SteadyNow() + absl::Seconds(60);
  do {
    AddStep();
  } while (Sends() && SteadyNow() < deadline);
  EXPECT_FALSE(Sends());
}

// Every run ends so.
TEST_F(AggregationServiceTest, Scatter_ReaderHasHadEnough_CountsNoError) {
  AddStep();
  grpc::ClientContext context;
  const auto reader = stub_->Scatter(&context, Request());
  v1::Chunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  context.TryCancel();
  server_.Shutdown();  // once all calls have ended
  EXPECT_EQ(errors_, 0);
}

TEST_F(AggregationServiceTest, Scatter_LaneBeyondTheLast_CountsAnError) {
  v1::ScatterRequest request = Request();
  request.set_lanes(2);
  request.set_lane(2);
  grpc::ClientContext context;
  v1::Chunk chunk;
  EXPECT_FALSE(stub_->Scatter(&context, request)->Read(&chunk));
  server_.Shutdown();
  EXPECT_EQ(errors_, 1);
}

// A worker that aggregates may end once it is idle.
TEST_F(AggregationServiceTest, WaitUntilIdle_TwoMembersRead_UntilTheLastHasGone) {
  AddStep();
  EXPECT_TRUE(IsIdle());
  grpc::ClientContext first, second;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::Chunk>>> readers;
  v1::Chunk chunk;
  for (grpc::ClientContext* context : {&first, &second}) {
    SayWho(kMember, context);
    readers.push_back(stub_->Scatter(context, Request()));
    ASSERT_TRUE(readers.back()->Read(&chunk));
  }
  EXPECT_FALSE(IsIdle());
  first.TryCancel();
  EXPECT_FALSE(service_.WaitUntilIdle(SteadyNow() + absl::Milliseconds(50)));
  second.TryCancel();
  EXPECT_TRUE(BecomesIdle());
}

TEST_F(AggregationServiceTest, WaitUntilIdle_StrangerReads_IsIdle) {
  AddStep();
  grpc::ClientContext context;
  const auto reader = stub_->Scatter(&context, Request());
  v1::Chunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  EXPECT_TRUE(IsIdle());
  context.TryCancel();
}

TEST_F(AggregationServiceTest, WaitUntilIdle_MemberHasSentNothingYet_IsBusy) {
  grpc::ClientContext context;
  SayWho(kMember, &context);
  v1::GatherReply reply;
  const auto writer = stub_->Gather(&context, &reply);
  EXPECT_TRUE(BecomesBusy());
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(BecomesIdle());
}

TEST_F(AggregationServiceTest, WaitUntilIdle_ChunkOfACallerWithoutAName_IsBusyUntilTheCallEnds) {
  grpc::ClientContext context;
  v1::GatherReply reply;
  const auto writer = stub_->Gather(&context, &reply);
  ASSERT_TRUE(writer->Write(FirstChunk()));
  EXPECT_TRUE(BecomesBusy());
  ASSERT_TRUE(writer->Write(FirstChunk()));
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(BecomesIdle());
  EXPECT_EQ(reply.chunks_accepted(), 1u);
  EXPECT_EQ(reply.chunks_ignored(), 1u) << "it came twice";
}

TEST_F(AggregationServiceTest, Abort_Twice_LaterCallsEndWithTheFirstReason) {
  service_.Abort(absl::AbortedError("rank 1 was lost in step 0"));
  service_.Abort(absl::AbortedError("the run is over"));
  grpc::ClientContext context;
  v1::Chunk chunk;
  const auto reader = stub_->Scatter(&context, Request());
  EXPECT_FALSE(reader->Read(&chunk));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "rank 1 was lost in step 0");
}

// Each worker has answers of its own from a served model, and takes them once.
TEST_F(AggregationServiceTest, Scatter_InTheNameOfAMember_IsRefused) {
  AddStep();
  v1::ScatterRequest request = Request();
  request.set_incarnation(kMember.value());
  grpc::ClientContext context;
  v1::Chunk chunk;
  const auto reader = stub_->Scatter(&context, request);
  EXPECT_FALSE(reader->Read(&chunk));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
}

// A worker does not wait for a lane that has no piece, so such a lane may come at any step.
TEST_F(AggregationServiceTest, Scatter_LateLaneWithoutAPiece_Waits) {
  for (int i = 0; i < 3; ++i) AddStep();
  v1::ScatterRequest request = Request();
  request.set_lanes(5);  // for four pieces
  request.set_lane(4);
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(1)));
  v1::Chunk chunk;
  const auto reader = stub_->Scatter(&context, request);
  EXPECT_FALSE(reader->Read(&chunk));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
}

TEST_F(AggregationServiceTest, Scatter_LanesByBucket_GetNothingOfAnotherLanesBucket) {
  AddStep();
  v1::ScatterRequest request = Request();
  request.set_lanes(2);
  request.set_lane(1);
  request.set_by_bucket(true);  // there is bucket 0 only, in several pieces
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(1)));
  v1::Chunk chunk;
  const auto reader = stub_->Scatter(&context, request);
  EXPECT_FALSE(reader->Read(&chunk));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
}

}  // namespace
}  // namespace gradwire
