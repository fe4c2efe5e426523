// A plain client made from the proto files, as any language has it, against the
// coordinator's aggregation: good chunks are summed, bad ones refused by name.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>

#include "common/rpc/channel.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/sealed_chunk.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

class GeneratedClientTest : public ::testing::Test {
 protected:
  GeneratedClientTest()
      : cluster_("coordinator", 1, {{8, v1::DTYPE_FLOAT32}}),
        stub_(v1::Aggregation::NewStub(MakeChannel(cluster_.coordinator_address()))) {
    const float terms[] = {1.5f, -2.0f};
    chunk_.set_run_id(ToBytes(cluster_.ViewOf(0).run_id));
    chunk_.set_epoch(1);
    chunk_.set_generation(1);
    chunk_.set_total(8);
    chunk_.set_dtype(v1::DTYPE_FLOAT32);
    chunk_.set_payload(terms, sizeof(terms));
  }

  // With its checksum, unless it has one.
  v1::Chunk Sealed() const {
    v1::Chunk chunk = chunk_;
    if (chunk.checksum() == 0) SealChunk(&chunk);
    return chunk;
  }

  grpc::Status Gather(v1::GatherReply* reply) {
    grpc::ClientContext context;
    auto writer = stub_->Gather(&context, reply);
    writer->Write(Sealed());
    writer->WritesDone();
    return writer->Finish();
  }

  void ExpectRefused(grpc::StatusCode code, const std::string& text) {
    v1::GatherReply reply;
    const grpc::Status status = Gather(&reply);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  }

  // A reader in the view of `chunk`.
  static v1::ScatterRequest ReaderOf(const v1::Chunk& chunk) {
    v1::ScatterRequest request;
    request.set_run_id(chunk.run_id());
    request.set_epoch(chunk.epoch());
    request.set_generation(chunk.generation());
    return request;
  }

  void ExpectScatterRefused(const v1::ScatterRequest& request, grpc::StatusCode code,
                            const std::string& text) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    auto reader = stub_->Scatter(&context, request);
    v1::Chunk mean;
    EXPECT_FALSE(reader->Read(&mean));
    const grpc::Status status = reader->Finish();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  }

  std::vector<uint32_t> MissingRanks(const v1::MissingRequest& request) {
    grpc::ClientContext context;
    v1::MissingReply reply;
    EXPECT_TRUE(stub_->Missing(&context, request, &reply).ok());
    return {reply.ranks().begin(), reply.ranks().end()};
  }

  BackendCluster cluster_;
  std::unique_ptr<v1::Aggregation::Stub> stub_;
  v1::Chunk chunk_;
};

TEST_F(GeneratedClientTest, GatherAndScatter_GoodChunk_ComesBackAsTheMean) {
  v1::GatherReply reply;
  ASSERT_TRUE(Gather(&reply).ok());
  EXPECT_EQ(reply.chunks_accepted(), 1);
  grpc::ClientContext context;
  auto reader = stub_->Scatter(&context, ReaderOf(chunk_));
  v1::Chunk mean;
  ASSERT_TRUE(reader->Read(&mean));
  EXPECT_EQ(mean.SerializeAsString(), Sealed().SerializeAsString());
  context.TryCancel();
  EXPECT_FALSE(reader->Read(&mean));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GeneratedClientTest, Scatter_TwoSteps_MeansOfBothOnOneCall) {
  grpc::ClientContext context;
  auto reader = stub_->Scatter(&context, ReaderOf(chunk_));
  for (const uint64_t step : {0, 1}) {
    v1::GatherReply reply;
    chunk_.set_step(step);
    ASSERT_TRUE(Gather(&reply).ok());
    v1::Chunk mean;
    ASSERT_TRUE(reader->Read(&mean));
    EXPECT_EQ(mean.step(), step);
  }
  context.TryCancel();
}

TEST_F(GeneratedClientTest, Scatter_ReaderIsLate_OutOfRange) {
  for (const uint64_t step : {0, 1}) {
    v1::GatherReply reply;
    chunk_.set_step(step);
    ASSERT_TRUE(Gather(&reply).ok());
  }
  ExpectScatterRefused(ReaderOf(chunk_), grpc::StatusCode::OUT_OF_RANGE,
                       "the results of step 0 are no longer available: the open step is 2");
}

TEST_F(GeneratedClientTest, Scatter_OtherRun_PermissionDenied) {
  chunk_.set_run_id(std::string(16, 'x'));
  ExpectScatterRefused(ReaderOf(chunk_), grpc::StatusCode::PERMISSION_DENIED, "expected run");
}

TEST_F(GeneratedClientTest, Scatter_LaneIsNotBelowLanes_InvalidArgument) {
  v1::ScatterRequest request = ReaderOf(chunk_);
  request.set_lane(2);
  request.set_lanes(2);
  ExpectScatterRefused(request, grpc::StatusCode::INVALID_ARGUMENT,
                       "got lane 2, expected a lane below 2");
}

TEST_F(GeneratedClientTest, Missing_NothingIsHandedIn_TheRankUntilItsStepIsOver) {
  v1::MissingRequest request;
  request.set_run_id(chunk_.run_id());
  request.set_epoch(1);
  request.set_generation(1);
  EXPECT_THAT(MissingRanks(request), ::testing::ElementsAre(0));
  v1::GatherReply gathered;
  ASSERT_TRUE(Gather(&gathered).ok());
  EXPECT_THAT(MissingRanks(request), ::testing::IsEmpty());
}

TEST_F(GeneratedClientTest, Gather_WrongTotal_InvalidArgument) {
  chunk_.set_total(12);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "got total 12, expected 8");
}

TEST_F(GeneratedClientTest, Gather_WrongOffset_InvalidArgument) {
  chunk_.set_offset(4);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "offset 4: got 8 bytes");
}

TEST_F(GeneratedClientTest, Gather_WrongDtype_InvalidArgument) {
  chunk_.set_dtype(v1::DTYPE_BYTES);
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "got dtype DTYPE_BYTES");
}

TEST_F(GeneratedClientTest, Gather_WrongChecksum_DataLoss) {
  chunk_.set_checksum(7);
  ExpectRefused(grpc::StatusCode::DATA_LOSS, "step 0, rank 0, bucket 0, offset 0: got checksum");
}

TEST_F(GeneratedClientTest, Gather_PayloadAboveTheLimit_InvalidArgument) {
  chunk_.set_payload(std::string(kMaxPayloadBytes + 1, 'x'));
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT,
                "got 4194305 bytes, expected a payload of at most 4194304");
}

TEST_F(GeneratedClientTest, Gather_MessageAboveTheChannelsLimit_ResourceExhausted) {
  chunk_.set_payload(std::string(kMaxMessageBytes + 1, 'x'));
  ExpectRefused(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
}

TEST_F(GeneratedClientTest, Gather_PayloadOfOneByte_InvalidArgument) {
  chunk_.set_payload("x");
  ExpectRefused(grpc::StatusCode::INVALID_ARGUMENT, "got 1 bytes, expected whole 4-byte elements");
}

TEST_F(GeneratedClientTest, Gather_OtherRun_PermissionDenied) {
  chunk_.set_run_id(std::string(16, 'x'));
  ExpectRefused(grpc::StatusCode::PERMISSION_DENIED, "expected run");
}

}  // namespace
}  // namespace gradwire
