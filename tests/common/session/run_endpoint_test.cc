#include "common/session/run_endpoint.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "common/rpc/grpc_server.h"
#include "gradwire/v1/membership.grpc.pb.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

// A coordinator that lets no worker in, and keeps what the last one said.
class RefusingService final : public v1::Membership::Service {
 public:
  grpc::Status Session(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    stream->Read(&first_);
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the run is full");
  }
  const v1::Hello& hello() const { return first_.hello(); }

 private:
  v1::WorkerMessage first_;
};

class RunEndpointTest : public ::testing::Test {
 protected:
  RunEndpointTest() { options_.coordinator = server_.address; }
  ~RunEndpointTest() override { server_.Shutdown(); }

  // Returns an endpoint that has joined in vain.
  std::unique_ptr<RunEndpoint> Joined() {
    auto endpoint = RunEndpoint::Create(options_).value();
    EXPECT_TRUE(endpoint->Serve({}).ok());
    EXPECT_TRUE(endpoint->Open([] { return false; }, [](const absl::Status&) {}).ok());
    EXPECT_EQ(endpoint->Join(v1::Hello()).status(),
              absl::FailedPreconditionError("the run is full"));
    return endpoint;
  }
  absl::Status OpenStatus(bool stopped) {
    auto endpoint = RunEndpoint::Create(options_).value();
    return endpoint->Open([stopped] { return stopped; }, [](const absl::Status&) {});
  }

  RefusingService service_;
  GrpcServer server_ = StartGrpcServer("127.0.0.1:0", {&service_}).value();
  RunEndpointOptions options_;
};

TEST_F(RunEndpointTest, Join_Hello_SaysWhereTheProcessRunsAndWhatItMayUse) {
  const auto endpoint = Joined();
  const v1::Hello& hello = service_.hello();
  EXPECT_EQ(hello.address(), endpoint->address());
  EXPECT_EQ(hello.pid(), static_cast<uint32_t>(getpid()));
  EXPECT_EQ(hello.host(), CoresId());
  EXPECT_EQ(hello.cores(), static_cast<uint32_t>(UsableCores()));
  EXPECT_EQ(hello.memory(), MemoryId());
  EXPECT_EQ(hello.has_memory_limits(), !hello.memory().empty());
  if (hello.has_memory_limits()) {
    EXPECT_EQ(LimitsFromProto(hello.memory_limits()).file, OwnMemoryLimits().file);
    EXPECT_GT(hello.memory_limits().host(), 0u);
  }
}

TEST_F(RunEndpointTest, Join_NoSharedMemory_HelloNamesNone) {
  options_.shares_memory = false;
  Joined();
  EXPECT_EQ(service_.hello().memory(), "");
  EXPECT_FALSE(service_.hello().has_memory_limits());
}

TEST_F(RunEndpointTest, Join_Refused_HasNotJoined) { EXPECT_FALSE(Joined()->joined()); }

TEST_F(RunEndpointTest, Open_NoCoordinator_WaitsAsLongAsAskedFor) {
  options_.coordinator = testing::UnusedAddress();
  options_.connect_timeout = absl::Milliseconds(100);
  const absl::Status status = OpenStatus(/*stopped=*/false);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not answer within 0.1 s"));
}

TEST_F(RunEndpointTest, Open_Stopped_IsCancelled) {
  options_.coordinator = testing::UnusedAddress();
  EXPECT_EQ(OpenStatus(/*stopped=*/true).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace gradwire
