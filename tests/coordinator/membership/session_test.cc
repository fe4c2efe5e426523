#include "common/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc_server.h"
#include "common/session/local_address.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BusyPort;
using ::gradwire::testing::UnusedAddress;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::Status OpenError(SessionOptions options) {
  return Session::Open(std::move(options), [](const absl::Status&) {}).status();
}

TEST(SessionOpen, NobodyListens_IsUnavailableAfterTheTimeout) {
  SessionOptions options;
  options.coordinator = UnusedAddress();
  options.connect_timeout = absl::Milliseconds(400);
  const absl::Status status = OpenError(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat("coordinator ", options.coordinator,
                                      " did not answer within 0.4 s (connection refused; ")));
}

TEST(SessionOpen, NobodyListens_WaitsLongerEachTime) {
  SessionOptions options;
  options.coordinator = UnusedAddress();
  options.connect_timeout = absl::Milliseconds(600);
  // After 0, 0.1, 0.3 and 0.6 s.
  EXPECT_THAT(std::string(OpenError(options).message()), HasSubstr("; 4 attempts)"));
}

// After 0, 0.1 and 0.3 s; 0.1 s is left then, and not the 0.4 s of the next wait.
TEST(SessionOpen, NobodyListens_LastWaitEndsAtTheTimeout) {
  SessionOptions options;
  options.coordinator = UnusedAddress();
  options.connect_timeout = absl::Milliseconds(400);
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(OpenError(options).ok());
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, HasSubstr("attempt 2, next in 0.2 s"));
  EXPECT_THAT(log, Not(HasSubstr("next in 0.4 s")));
}

TEST(SessionOpen, UnknownName_SaysSo) {
  SessionOptions options;
  options.coordinator = "no-such-host.invalid:29400";
  options.connect_timeout = absl::Milliseconds(100);
  const absl::Status status = OpenError(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("coordinator no-such-host.invalid:29400 did not answer within 0.1 s ("));
}

TEST(SessionOpen, NoPort_IsRefused) {
  SessionOptions options;
  options.coordinator = "10.10.1.1";
  EXPECT_EQ(OpenError(options),
            absl::InvalidArgumentError("address: got '10.10.1.1', expected HOST:PORT, such as "
                                       "10.10.1.1:29400 or [::1]:29400"));
}

TEST(SessionOpen, PeerDoesNotSpeakGrpc_IsUnavailable) {
  const BusyPort port;
  SessionOptions options;
  options.coordinator = port.address();
  options.connect_timeout = absl::Milliseconds(300);
  EXPECT_THAT(std::string(OpenError(options).message()), HasSubstr("it does not speak gRPC"));
}

TEST(SessionJoin, AnotherGrpcServer_SaysSo) {
  const GrpcServer other = StartGrpcServer("127.0.0.1:0", {}).value();
  SessionOptions options;
  options.coordinator = other.address;
  const auto session = Session::Open(options, [](const absl::Status&) {}).value();
  EXPECT_EQ(session->Join({}).status(),
            absl::FailedPreconditionError(absl::StrCat(
                "coordinator ", options.coordinator, ": got a gRPC server that offers no sessions ",
                "(a worker?), expected a coordinator")));
}

TEST(SessionOpen, Cancelled_EndsTheWait) {
  SessionOptions options;
  options.coordinator = UnusedAddress();
  options.connect_timeout = absl::Hours(1);
  options.cancelled = [asked = 0]() mutable { return ++asked > 3; };
  EXPECT_EQ(OpenError(options), absl::CancelledError("cancelled while connecting"));
}

TEST(LocalAddressTowards, Loopback_IsLoopback) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1:29400").value(), "127.0.0.1");
}

TEST(LocalAddressTowards, Name_IsResolved) {
  EXPECT_THAT(LocalAddressTowards("localhost:29400").value(), ::testing::AnyOf("127.0.0.1", "::1"));
}

TEST(LocalAddressTowards, UnknownName_IsUnavailable) {
  const absl::Status status = LocalAddressTowards("no-such-host.invalid:1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("no route to coordinator no-such-host.invalid:1: "));
}

TEST(LocalAddressTowards, NoPort_IsRefused) {
  EXPECT_EQ(LocalAddressTowards("10.10.1.1").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gradwire
