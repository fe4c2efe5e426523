#include "cli/status/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/scripted_server.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using testing::HttpAnswer;
using testing::ScriptedServer;

constexpr absl::Duration kLong = absl::Seconds(60);
constexpr absl::Duration kShort = absl::Milliseconds(200);

absl::Status ErrorOf(const std::string& answer) {
  const ScriptedServer server({answer});
  return HttpGet(server.address(), "/status.json", kLong).status();
}

TEST(HttpGet, Answer_GivesItsBody) {
  const ScriptedServer server({HttpAnswer("{}\n")});
  const auto body = HttpGet(server.address(), "/status.json", kLong);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "{}\n");
}

TEST(HttpGet, LongBody_IsWhole) {
  const ScriptedServer server({HttpAnswer(std::string(3000000, 'x'))});
  const auto body = HttpGet(server.address(), "/", kLong);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->size(), 3000000u);
}

TEST(HttpGet, BodyAboveTheBound_IsRefused) {
  const absl::Status status = ErrorOf(HttpAnswer(std::string((64 << 20) + 1, 'x')));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the answer is longer than 64 MiB");
}

TEST(HttpGet, ProxyInTheEnvironment_IsNotAsked) {
  const ScriptedServer server({HttpAnswer("{}\n")});
  setenv("http_proxy", ("http://" + testing::UnusedAddress()).c_str(), 1);
  const auto body = HttpGet(server.address(), "/", kLong);
  unsetenv("http_proxy");
  EXPECT_TRUE(body.ok()) << body.status();
}

TEST(HttpGet, AddressWithoutPort_IsInvalid) {
  EXPECT_EQ(HttpGet("localhost", "/", kLong).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HttpGet, NobodyListens_IsUnavailable) {
  const absl::Status status = HttpGet(testing::UnusedAddress(), "/", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "connection refused");
}

TEST(HttpGet, UnknownHost_IsUnavailable) {
  const absl::Status status = HttpGet("nobody.invalid:80", "/", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "couldn't resolve host name");
}

TEST(HttpGet, ClosedWithoutAnswer_IsNoHttp) {
  EXPECT_EQ(ErrorOf("").message(), "the answer is not HTTP");
}

TEST(HttpGet, NoAnswer_IsDeadlineExceeded) {
  const ScriptedServer server({""}, /*stays_open=*/true);
  const absl::Status status = HttpGet(server.address(), "/", kShort).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "no whole answer within 200ms");
}

TEST(HttpGet, BodyThatStops_IsDeadlineExceeded) {
  std::string half = HttpAnswer("0123456789");
  half.resize(half.size() - 4);
  const ScriptedServer server({half}, /*stays_open=*/true);
  const absl::Status status = HttpGet(server.address(), "/", kShort).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
}

TEST(HttpGet, BodyThatEndsEarly_SaysHowFarItCame) {
  std::string half = HttpAnswer("0123456789");
  half.resize(half.size() - 4);
  const absl::Status status = ErrorOf(half);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the answer ended after 6 of 10 bytes");
}

TEST(HttpGet, OtherCode_IsNamed) {
  const absl::Status status = ErrorOf(HttpAnswer("no", 404));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "got 404 for /status.json, expected 200");
}

TEST(HttpGet, OtherProtocol_IsNoHttp) {
  const absl::Status status = ErrorOf("220 mail.example ESMTP\r\n\r\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "the answer is not HTTP");
}

}  // namespace
}  // namespace gradwire
