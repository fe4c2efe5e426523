#include "common/rpc/security.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/grpc_server.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "the-token-of-this-run";

Security WithToken(const std::string& token) {
  SecurityOptions options;
  options.token = token;
  return Security::Read(options).value();
}

class SecurityTest : public ::testing::Test {
 protected:
  void Serve(const Security& security) {
    server_ = StartGrpcServer("127.0.0.1:0", {&status_}, security).value();
  }
  ~SecurityTest() override { server_.Shutdown(); }

  // What a call ends with; `key` and `value`: a header by hand.
  grpc::Status Ask(const Security& security, const std::string& key = "",
                   const std::string& value = "") {
    const auto stub = v1::Status::NewStub(MakeChannel(server_.address, security));
    grpc::ClientContext context;
    context.set_deadline(ToGrpcDeadline(SteadyNow() + absl::Seconds(10)));
    context.set_wait_for_ready(true);
    if (!key.empty()) context.AddMetadata(key, value);
    v1::StatusReply reply;
    return stub->Get(&context, {}, &reply);
  }
  void ExpectRefused(const grpc::Status& status, const std::string& why) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
    EXPECT_EQ(asked_, 0);
  }

  std::atomic<int> asked_{0};
  StatusService status_{[this] {
    ++asked_;
    return v1::StatusReply();
  }};
  GrpcServer server_;
};

TEST_F(SecurityTest, SameToken_IsLetIn) {
  Serve(WithToken(kToken));
  const grpc::Status status = Ask(WithToken(kToken));
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(asked_, 1);
}

TEST_F(SecurityTest, NoToken_RefusedBeforeTheService) {
  Serve(WithToken(kToken));
  ExpectRefused(Ask(Security()), "the call has none");
}

TEST_F(SecurityTest, WrongToken_RefusedBeforeTheService) {
  Serve(WithToken(kToken));
  for (const char* wrong :
       {"the-token-of-another", "the-token-of-this-rum", "the-token-of-this-ru"}) {
    ExpectRefused(Ask(WithToken(wrong)), "is not this run's");
  }
}

TEST_F(SecurityTest, HeaderByHand_CountsAsWell) {
  Serve(WithToken(kToken));
  ExpectRefused(Ask(Security(), "gradwire-token", "the-token-of-another"), "is not this run's");
  ExpectRefused(Ask(Security(), "gradwire-token", ""), "is not this run's");
  EXPECT_TRUE(Ask(Security(), "gradwire-token", kToken).ok());
}

TEST_F(SecurityTest, OpenServer_TakesBoth) {
  Serve(Security());
  EXPECT_TRUE(Ask(Security()).ok());
  EXPECT_TRUE(Ask(WithToken(kToken)).ok());
}

TEST_F(SecurityTest, ManyRefused_NoThreadIsLeft) {
  Serve(WithToken(kToken));
  server_.AllowCalls(8);
  for (int i = 0; i < 50; ++i)
    ExpectRefused(Ask(WithToken("the-token-of-another")), "not this run's");
  EXPECT_TRUE(Ask(WithToken(kToken)).ok());
}

// When gRPC destroys such credentials, it waits for threads: a second, for one of some sixty.
TEST(SecurityRead, ManyOneAfterAnother_NoWaitAtTheirEnd) {
  const absl::Time start = SteadyNow();
  for (int i = 0; i < 1000; ++i) WithToken(kToken).ForChannel();
  EXPECT_LT(SteadyNow() - start, absl::Seconds(3));
}

TEST(SecurityRead, FileThatIsNotThere_NotFound) {
  SecurityOptions options;
  options.token_file = "/no/such/token";
  const absl::Status status = Security::Read(options).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'/no/such/token'"));
}

}  // namespace
}  // namespace gradwire
