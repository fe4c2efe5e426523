// What a worker takes of a caller of Neighbor.Stream, and what it refuses: a plain client made from
// the proto files, in the place of rank 0 of a ring of three.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/caller.h"
#include "common/rpc/channel.h"
#include "gradwire/v1/neighbor.grpc.pb.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/sealed_chunk.h"
#include "worker/backends/hops/hop_plan.h"
#include "worker/backends/hops/hop_plans.h"
#include "worker/backends/memory/payload_slots.h"

namespace gradwire::neighbor_stream_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kRanks = 3;
constexpr int kReceiver = 1;  // that rank 0 sends to
// A third of it, a segment, is several chunks.
constexpr uint64_t kBytes = 4 * 1'500'000;

// One call, as a neighbour makes it.
class Caller {
 public:
  explicit Caller(const std::string& address, absl::optional<Incarnation> said = absl::nullopt)
      : stub_(v1::Neighbor::NewStub(MakeChannel(address))) {
    if (said.has_value()) SayWho(*said, &context_);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream_ = stub_->Stream(&context_);
  }
  ~Caller() { context_.TryCancel(); }

  // With its checksum, unless it has one.
  bool Write(v1::Chunk chunk) {
    if (chunk.checksum() == 0) SealChunk(&chunk);
    return stream_->Write(chunk);
  }
  // Without a word.
  void Cancel() { context_.TryCancel(); }
  // All is sent.
  void Done() { stream_->WritesDone(); }
  // How the worker ends the call.
  grpc::Status End() {
    v1::NeighborReply reply;
    while (stream_->Read(&reply)) {
    }
    return stream_->Finish();
  }

 private:
  const std::unique_ptr<v1::Neighbor::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::Chunk, v1::NeighborReply>> stream_;
};

class NeighborStreamTest : public ::testing::Test {
 protected:
  NeighborStreamTest() : cluster_("ring", kRanks, Buckets()), chunks_(ChunksFromRank0()) {}

  static std::vector<BucketSpec> Buckets() { return {{kBytes, v1::DTYPE_FLOAT32}}; }

  // What rank 0 sends first: of its own terms, in order.
  std::vector<v1::Chunk> ChunksFromRank0() {
    HopPlans plans(&RingTopology(), ReceiverView());
    plans.Add(LayoutId(0), Buckets());
    const BucketPlan& plan = plans.Of({LayoutId(0), Step(0), Bucket(0)});
    std::vector<v1::Chunk> chunks;
    for (const auto& [way, incoming] : plan.hops.incoming) {
      const auto& [segment, hop] = way;
      if (hop != 0 || incoming.from != Rank(0)) continue;
      for (const HopChunk& hop_chunk : plan.segments.Of(segment))
        chunks.push_back(ChunkOf(hop_chunk));
    }
    return chunks;
  }
  View ReceiverView() const { return cluster_.ViewOf(kReceiver); }
  // Of incarnation 0 if it has none.
  Incarnation SuspectOfReceiver() {
    const absl::optional<Suspect> suspect = cluster_.exchange(kReceiver).suspect();
    return suspect.has_value() ? suspect->worker : Incarnation(0);
  }

  // Of step 0 and ones.
  v1::Chunk ChunkOf(const HopChunk& hop_chunk) const {
    v1::Chunk chunk;
    chunk.set_run_id(ToBytes(ReceiverView().run_id));
    chunk.set_epoch(1);
    chunk.set_generation(1);
    chunk.set_total(kBytes);
    chunk.set_dtype(v1::DTYPE_FLOAT32);
    chunk.set_offset(hop_chunk.ranges.front().offset);
    SetPayload(std::vector<float>(hop_chunk.bytes / sizeof(float), 1), &chunk);
    return chunk;
  }
  static void SetPayload(const std::vector<float>& values, v1::Chunk* chunk) {
    const size_t bytes = values.size() * sizeof(float);
    chunk->set_payload(values.data(), bytes);
  }

  Caller Call() const { return Caller(ReceiverView().members[kReceiver].address); }

  void ExpectRefused(const v1::Chunk& first, grpc::StatusCode code, const std::string& text) {
    Caller caller = Call();
    caller.Write(first);
    const grpc::Status status = caller.End();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  }
  // Every rank contributes its rank, of which the mean is 1.
  void ExpectStepWorks(uint64_t step) {
    std::vector<std::vector<std::string>> data;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> values(kBytes / sizeof(float), static_cast<float>(rank));
      data.push_back({std::string(reinterpret_cast<const char*>(values.data()), kBytes)});
    }
    const std::string mean = data[1][0];
    for (const absl::Status& status : cluster_.RunStep(step, &data))
      EXPECT_TRUE(status.ok()) << status;
    for (const auto& of_rank : data) EXPECT_TRUE(of_rank[0] == mean);
  }
  // The receiver alone begins step 0.
  std::future<absl::Status> Contribute() {
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    Exchange& exchange = cluster_.exchange(kReceiver);
    exchange.Expect(key, absl::MakeSpan(mean_), SteadyNow() + absl::Seconds(30),
                    [this](absl::Status status) { done_.set_value(std::move(status)); });
    exchange.Contribute(key, Rank(kReceiver), terms_);
    return done_.get_future();
  }

  // Longer than the cluster, which may write to them.
  const std::vector<uint8_t> terms_ = std::vector<uint8_t>(kBytes);
  std::vector<uint8_t> mean_ = std::vector<uint8_t>(kBytes);
  std::promise<absl::Status> done_;
  BackendCluster cluster_;
  const std::vector<v1::Chunk> chunks_;
};

// It would keep a thread of the server.
TEST_F(NeighborStreamTest, StrangerSendsNothing_IsEndedWhateverItSays) {
  const std::string address = ReceiverView().members[kReceiver].address;
  for (const absl::optional<Incarnation> said :
       {absl::optional<Incarnation>(), absl::optional<Incarnation>(Incarnation(987654))}) {
    const absl::Time begun = SteadyNow();
    EXPECT_FALSE(Caller(address, said).End().ok());
    EXPECT_LT(SteadyNow() - begun, absl::Seconds(15));  // a call may last 30 s
  }
}

TEST_F(NeighborStreamTest, MemberSendsNothing_MayStay) {
  const View view = ReceiverView();
  Caller caller(view.members[kReceiver].address, view.members[0].incarnation);
  auto ended = std::async(std::launch::async, [&caller] { return caller.End(); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(2500)), std::future_status::timeout);
  caller.Cancel();
  EXPECT_FALSE(ended.get().ok());
}

TEST_F(NeighborStreamTest, FirstChunk_OtherRun_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_run_id(std::string(16, 'x'));
  ExpectRefused(chunk, grpc::StatusCode::PERMISSION_DENIED, "expected run");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_OlderGeneration_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_generation(0);
  ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT, "got generation 0, expected 1");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_StepAfterTheNext_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_step(2);
  ExpectRefused(chunk, grpc::StatusCode::OUT_OF_RANGE,
                "got step 2, expected the open step 0 or the next");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_StepThatIsOver_RefusedAndTheRunGoesOn) {
  for (uint64_t step : {0, 1}) ExpectStepWorks(step);
  ExpectRefused(chunks_[0], grpc::StatusCode::OUT_OF_RANGE, "got step 0, expected the open step 1");
  ExpectStepWorks(2);
}

TEST_F(NeighborStreamTest, FirstChunk_NoParcelBeginsThere_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_offset(chunk.offset() + sizeof(float));
  ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT, "expected a whole chunk of the bucket");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_ShorterThanItsParcel_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  SetPayload({1, 1}, &chunk);
  ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT, "got 8 bytes, expected a whole chunk");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_NameOfARankThatDoesNotSendIt_RefusedAndTheRunGoesOn) {
  for (uint32_t rank : {1, 2}) {
    v1::Chunk chunk = chunks_[0];
    chunk.set_rank(rank);
    ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT,
                  "expected one from that rank to rank 1");
  }
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_HopThatThereIsNot_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_hop(9);
  ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT, "got hop 9 of segment");
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, FirstChunk_WrongChecksum_RefusedAndTheRunGoesOn) {
  v1::Chunk chunk = chunks_[0];
  chunk.set_checksum(1);
  ExpectRefused(chunk, grpc::StatusCode::DATA_LOSS, "expected");
  ExpectStepWorks(0);
}

// The first chunk, with its payload in a slot of rank 0's memory.
class SlotStreamTest : public NeighborStreamTest {
 protected:
  SlotStreamTest() : in_slot_(chunks_[0]) {
    const std::string& payload = chunks_[0].payload();
    const auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
    in_slot_.set_slot(slots_->Put({{bytes, payload.size()}}, absl::ZeroDuration()).value());
    in_slot_.set_slot_bytes(static_cast<uint32_t>(payload.size()));
    in_slot_.clear_payload();
    SealChunk(&in_slot_, payload);
  }
  // Seals it anew, with the payload that it has by then.
  void ExpectRefusedSealed(v1::Chunk chunk, grpc::StatusCode code, const std::string& text) {
    SealChunk(&chunk);
    ExpectRefused(chunk, code, text);
    ExpectStepWorks(0);
  }

  const std::unique_ptr<SlotWriter> slots_ = SlotWriter::Make(cluster_.ViewOf(0), 0).value();
  v1::Chunk in_slot_;
};

TEST_F(SlotStreamTest, Chunk_PayloadInASlot_TakenAndTheSlotIsEmpty) {
  std::future<absl::Status> done = Contribute();
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(in_slot_));
  ASSERT_TRUE(caller.Write(chunks_[1]));
  while (cluster_.exchange(kReceiver).totals().bytes_received == 0) std::this_thread::yield();
  EXPECT_EQ(cluster_.exchange(kReceiver).totals().bytes_received, chunks_[1].payload().size());
  const auto reader = SlotReader::Open(cluster_.ViewOf(0), ReceiverView().members[0], 1);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Get(1, 0).ok());  // it holds 0 bytes
}

TEST_F(SlotStreamTest, Chunk_BeforeTheReceiversTerms_IsKeptAndTheSlotIsEmpty) {
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(in_slot_));
  ASSERT_TRUE(caller.Write(chunks_[1]));
  while (cluster_.exchange(kReceiver).totals().bytes_received == 0) std::this_thread::yield();
  const auto reader = SlotReader::Open(cluster_.ViewOf(0), ReceiverView().members[0], 1);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Get(1, 0).ok());
}

// The sender uses the slot for others until the receiver has its terms.
TEST_F(SlotStreamTest, Chunk_ExpectedBeforeTheReceiversTerms_IsCopiedOutOfItsSlot) {
  Exchange& exchange = cluster_.exchange(kReceiver);
  const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
  exchange.Expect(key, absl::MakeSpan(mean_), SteadyNow() + absl::Seconds(30),
                  [](const absl::Status&) {});
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(in_slot_));
  ASSERT_TRUE(caller.Write(chunks_[1]));
  while (exchange.totals().bytes_received == 0) std::this_thread::yield();
  const std::string other(chunks_[0].payload().size(), 'o');
  for (uint32_t i = 0; i < PayloadSlots::kCount; ++i) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(other.data());
    ASSERT_TRUE(slots_->Put({{bytes, other.size()}}, absl::ZeroDuration()).has_value()) << i;
  }
  exchange.Contribute(key, Rank(kReceiver), terms_);
  // It sends the two sums, and the segment that begins with it.
  HopPlans plans(&RingTopology(), ReceiverView());
  plans.Add(LayoutId(0), Buckets());
  uint64_t sent = chunks_[0].payload().size() + chunks_[1].payload().size();
  sent += plans.Of(key).segments.BytesOf(kReceiver);
  while (exchange.totals().bytes_sent < sent) std::this_thread::yield();
  const auto* sums = reinterpret_cast<const float*>(&mean_[chunks_[0].offset()]);
  EXPECT_EQ(sums[0], 1);  // its own terms are 0
}

TEST_F(SlotStreamTest, Chunk_OtherBytesInTheSlot_RefusedAndTheRunGoesOn) {
  in_slot_.set_checksum(1);
  ExpectRefused(in_slot_, grpc::StatusCode::DATA_LOSS, "expected");
  ExpectStepWorks(0);
}

TEST_F(SlotStreamTest, Chunk_SlotHoldsMore_RefusedAndTheRunGoesOn) {
  in_slot_.set_slot_bytes(8);
  ExpectRefusedSealed(in_slot_, grpc::StatusCode::INVALID_ARGUMENT, "got 8 bytes in slot 1");
}

TEST_F(SlotStreamTest, Chunk_SlotThatThereIsNot_RefusedAndTheRunGoesOn) {
  in_slot_.set_slot(PayloadSlots::kCount + 1);
  ExpectRefusedSealed(in_slot_, grpc::StatusCode::ABORTED, "-slots-1-data");
}

TEST_F(SlotStreamTest, Chunk_SlotAndAPayload_RefusedAndTheRunGoesOn) {
  in_slot_.set_payload("both");
  ExpectRefusedSealed(in_slot_, grpc::StatusCode::INVALID_ARGUMENT,
                      "expected a payload of 4 as the last field");
}

TEST_F(SlotStreamTest, Chunk_OfRanksThatHaveNoSlotsHere_RefusedAndTheRunGoesOn) {
  for (const uint32_t rank : {kReceiver, kRanks, 1 << 30}) {
    in_slot_.set_rank(rank);
    SealChunk(&in_slot_);
    ExpectRefused(in_slot_, grpc::StatusCode::INVALID_ARGUMENT, "got slot 1, expected");
  }
  ExpectStepWorks(0);
}

TEST_F(NeighborStreamTest, SecondStream_InTheNameOfTheNeighbour_RefusedAndTheRunGoesOn) {
  ExpectStepWorks(0);  // after which rank 0 is known by its own stream
  v1::Chunk chunk = chunks_[0];
  chunk.set_step(1);
  ExpectRefused(chunk, grpc::StatusCode::INVALID_ARGUMENT,
                "got it in a second stream, expected one stream per view");
  ExpectStepWorks(1);
}

// From here on the caller is taken for the neighbour, so what it does wrong ends the step.

TEST_F(NeighborStreamTest, Gap_EndsTheStepAndSuspectsTheNeighbour) {
  ASSERT_GE(chunks_.size(), 3u);
  std::future<absl::Status> done = Contribute();
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(chunks_[0]));
  caller.Write(chunks_[2]);
  EXPECT_THAT(caller.End().error_message(), HasSubstr("got chunk 2 of its segment, expected 1"));
  const absl::Status status = done.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("neighbor rank 0 ("));
  EXPECT_EQ(SuspectOfReceiver(), ReceiverView().members[0].incarnation);
}

TEST_F(NeighborStreamTest, Resend_EndsTheStepAndSuspectsTheNeighbour) {
  std::future<absl::Status> done = Contribute();
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(chunks_[0]));
  caller.Write(chunks_[0]);
  EXPECT_THAT(caller.End().error_message(), HasSubstr("got chunk 0 of its segment, expected 1"));
  EXPECT_EQ(done.get().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SuspectOfReceiver(), ReceiverView().members[0].incarnation);
}

// As it does too when it misses another one.
TEST_F(NeighborStreamTest, BrokenOff_SuspectMayHaveDoneItForAnothersSake) {
  std::future<absl::Status> done = Contribute();
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(chunks_[0]));
  while (cluster_.exchange(kReceiver).totals().bytes_received == 0) std::this_thread::yield();
  caller.Cancel();
  EXPECT_EQ(done.get().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(SuspectOfReceiver(), ReceiverView().members[0].incarnation);
  EXPECT_TRUE(absl::IsAborted(cluster_.exchange(kReceiver).suspect()->failure));
}

TEST_F(NeighborStreamTest, ExchangeHasFailed_WhoStillSendsHearsThatItWasLetGo) {
  std::future<absl::Status> done = Contribute();
  cluster_.exchange(kReceiver).Cancel(absl::UnavailableError("rank 2 does not answer"));
  EXPECT_TRUE(absl::IsUnavailable(done.get()));
  ExpectRefused(chunks_[0], grpc::StatusCode::ABORTED, "rank 2 does not answer");
}

// What comes before the receiver's terms is kept, but no more than there can be.
TEST_F(NeighborStreamTest, MoreThanTheSegmentBeforeItIsWanted_Refused) {
  Caller caller = Call();
  for (const v1::Chunk& hop_chunk : chunks_) ASSERT_TRUE(caller.Write(hop_chunk));
  caller.Write(chunks_[0]);
  const grpc::Status status = caller.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr(" bytes of this hop, expected at most "));
}

TEST_F(NeighborStreamTest, HalfClosedInTheMiddleOfAStep_NeighbourHasLeftButIsNoSuspect) {
  std::future<absl::Status> done = Contribute();
  {
    Caller caller = Call();
    ASSERT_TRUE(caller.Write(chunks_[0]));
    caller.Done();
    EXPECT_TRUE(caller.End().ok());
  }
  const absl::Status status = done.get();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(") has left, but other workers have not finished all"));
  EXPECT_FALSE(cluster_.exchange(kReceiver).suspect().has_value());
}

TEST_F(NeighborStreamTest, HalfClosedBeforeTheStepIsExpected_NeighbourHasLeftButIsNoSuspect) {
  {
    Caller caller = Call();
    ASSERT_TRUE(caller.Write(chunks_[0]));
    caller.Done();
    EXPECT_TRUE(caller.End().ok());
  }
  const absl::Status status = Contribute().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(") has left, but other workers have not finished all"));
  EXPECT_FALSE(cluster_.exchange(kReceiver).suspect().has_value());
}

// The receiver is past step 0, and a chunk of it is left.
TEST_F(NeighborStreamTest, ChunkThatNoStepHasTaken_EndsTheNextStep) {
  Caller caller = Call();
  ASSERT_TRUE(caller.Write(chunks_[0]));
  while (cluster_.exchange(kReceiver).totals().bytes_received == 0) std::this_thread::yield();
  const BucketKey key{LayoutId(0), Step(1), Bucket(0)};
  cluster_.exchange(kReceiver).Expect(
      key, absl::MakeSpan(mean_), SteadyNow() + absl::Seconds(30),
      [this](absl::Status status) { done_.set_value(std::move(status)); });
  const absl::Status status = done_.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a neighbor sent more chunks of step 0 than there are"));
}

}  // namespace
}  // namespace gradwire::neighbor_stream_test
