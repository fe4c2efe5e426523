#include "coordinator/rendezvous/rendezvous_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

RunId RunOf(uint8_t byte) {
  RunId run_id;
  run_id.fill(byte);
  return run_id;
}

v1::SetRequest WithKey(const std::string& key) {
  v1::SetRequest request;
  request.set_run_id(ToBytes(RunOf(7)));
  request.set_key(key);
  return request;
}

template <typename Request>
Request WithKeys(const std::vector<std::string>& keys) {
  Request request;
  request.set_run_id(ToBytes(RunOf(7)));
  for (const std::string& key : keys) request.add_keys(key);
  return request;
}

class RendezvousServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::Rendezvous::NewStub(server_->InProcessChannel({}));
  }

  grpc::Status Set(const std::string& key, const std::string& value) {
    auto request = WithKey(key);
    request.set_value(value);
    grpc::ClientContext context;
    v1::SetReply reply;
    return stub_->Set(&context, request, &reply);
  }

  // "a=1 b=2", or the error's code.
  std::string Wait(const std::vector<std::string>& keys, absl::Duration time,
                   grpc::ClientContext* context) {
    context->set_deadline(ToGrpcDeadline(SteadyNow() + time));
    v1::Entries reply;
    const grpc::Status status = stub_->Wait(context, WithKeys<v1::WaitRequest>(keys), &reply);
    if (!status.ok()) return std::to_string(status.error_code());
    std::string text;
    for (const v1::Entry& entry : reply.entries()) {
      text += (text.empty() ? "" : " ") + entry.key() + "=" + entry.value();
    }
    return text;
  }

  RendezvousStore store_;
  RendezvousService service_{RunOf(7), &store_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Rendezvous::Stub> stub_;
};

TEST_F(RendezvousServiceTest, Set_ThenGet_GivesTheEntries) {
  ASSERT_TRUE(Set("a", std::string("\0\xff", 2)).ok());
  grpc::ClientContext context;
  v1::Entries reply;
  ASSERT_TRUE(stub_->Get(&context, WithKeys<v1::GetRequest>({"a"}), &reply).ok());
  ASSERT_EQ(reply.entries_size(), 1);
  EXPECT_EQ(reply.entries(0).key(), "a");
  EXPECT_EQ(reply.entries(0).value(), std::string("\0\xff", 2));
}

TEST_F(RendezvousServiceTest, Wait_KeysThatComeLater_GivesThem) {
  grpc::ClientContext context;
  std::future<std::string> waits = std::async(std::launch::async, [&] {
    return Wait({"a", "b"}, absl::Seconds(60), &context);
  });
  ASSERT_TRUE(Set("a", "1").ok());
  ASSERT_TRUE(Set("b", "2").ok());
  EXPECT_EQ(waits.get(), "a=1 b=2");
}

TEST_F(RendezvousServiceTest, Wait_KeyThatNeverComes_DeadlineExceeded) {
  grpc::ClientContext context;
  EXPECT_EQ(Wait({"never"}, absl::Milliseconds(50), &context),
            std::to_string(grpc::StatusCode::DEADLINE_EXCEEDED));
}

// A server that shuts down waits for its calls: one that nobody wants any more must end.
TEST_F(RendezvousServiceTest, Wait_CallerGone_FreesItsThreadLongBeforeTheDeadline) {
  grpc::ClientContext context;
  std::future<std::string> waits =
      std::async(std::launch::async, [&] { return Wait({"never"}, absl::Seconds(40), &context); });
  ASSERT_TRUE(Set("a", "1").ok());
  context.TryCancel();
  EXPECT_EQ(waits.get(), std::to_string(grpc::StatusCode::CANCELLED));
  const absl::Time start = SteadyNow();
  server_->Shutdown();
  EXPECT_LT(SteadyNow() - start, absl::Seconds(30));
}

TEST_F(RendezvousServiceTest, AnyCall_OfAnotherRun_PermissionDeniedNamesBoth) {
  const std::string other = ToBytes(RunOf(8));
  const std::vector<std::function<grpc::Status(grpc::ClientContext*)>> calls = {
      [&](grpc::ClientContext* context) {
        auto request = WithKey("a");
        request.set_run_id(other);
        v1::SetReply reply;
        return stub_->Set(context, request, &reply);
      },
      [&](grpc::ClientContext* context) {
        auto request = WithKeys<v1::GetRequest>({"a"});
        request.set_run_id(other);
        v1::Entries reply;
        return stub_->Get(context, request, &reply);
      },
      [&](grpc::ClientContext* context) {
        auto request = WithKeys<v1::WaitRequest>({"a"});
        request.set_run_id(other);
        v1::Entries reply;
        return stub_->Wait(context, request, &reply);
      }};
  for (const auto& call : calls) {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(60)));
    const grpc::Status status = call(&context);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(status.error_message(), HasSubstr("got run 0808"));
    EXPECT_THAT(status.error_message(), HasSubstr("expected run 0707"));
  }
  EXPECT_EQ(store_.Get({"a"})->size(), 0);
}

TEST_F(RendezvousServiceTest, RunIdOfWrongLength_InvalidArgument) {
  auto request = WithKey("a");
  request.set_run_id("short");
  grpc::ClientContext context;
  v1::SetReply reply;
  EXPECT_EQ(stub_->Set(&context, request, &reply).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace gradwire
