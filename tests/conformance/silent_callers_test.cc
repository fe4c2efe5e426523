// Callers at a server that aggregates: a call that waits for a view which never comes ends with the
// server, and does not hold up its end.

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include "common/aggregation/aggregation_service.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"
#include "gradwire/v1/aggregation.grpc.pb.h"

namespace gradwire {
namespace {

// Shorter than a call waits for its view, longer than the server gives calls to end.
constexpr absl::Duration kSoon = absl::Seconds(5);

class SilentCallersTest : public ::testing::Test {
 protected:
  SilentCallersTest()
      : server_(StartGrpcServer("127.0.0.1:0", {&service_}).value()),
        channel_(MakeChannel(server_.address)),
        stub_(v1::Aggregation::NewStub(channel_)) {}
  ~SilentCallersTest() override { server_.Shutdown(); }

  // Once this has ended the server has taken all calls that were made before it, as they share a
  // connection.
  void AskInVain() {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Milliseconds(300)));
    v1::MissingRequest request;
    request.set_run_id(std::string(16, 'r'));
    v1::MissingReply reply;
    const grpc::Status status = stub_->Missing(&context, request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }

  AggregationService service_{{}};  // which serves no view
  GrpcServer server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Aggregation::Stub> stub_;
};

TEST_F(SilentCallersTest, Shutdown_GatherWithoutAMessageIsOpen_DoesNotWaitForAView) {
  grpc::ClientContext context;
  v1::GatherReply reply;
  const auto gather = stub_->Gather(&context, &reply);
  AskInVain();
  const absl::Time begun = SteadyNow();
  server_.Shutdown();
  EXPECT_LT(SteadyNow() - begun, kSoon);
  EXPECT_FALSE(gather->Finish().ok());
}

TEST_F(SilentCallersTest, Shutdown_CallerOfMissingHasGone_DoesNotWaitForAView) {
  AskInVain();
  const absl::Time begun = SteadyNow();
  server_.Shutdown();
  EXPECT_LT(SteadyNow() - begun, kSoon);
}

}  // namespace
}  // namespace gradwire
