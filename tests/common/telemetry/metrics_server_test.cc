#include "common/telemetry/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <regex>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/telemetry/metrics.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

using ::gradwire::testing::BusyPort;
using ::gradwire::testing::HttpGet;
using ::gradwire::testing::HttpReply;
using ::gradwire::testing::HttpRequest;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class MetricsServerTest : public ::testing::Test {
 protected:
  MetricsServerTest()
      : server_(std::move(*MetricsServer::Start("127.0.0.1:0", metrics_.registry(),
                                                [this] { return ready_.load(); }))) {}

  HttpReply Get(absl::string_view path) { return *HttpGet(server_->address(), path); }

  WorkerMetrics metrics_{"all-reduce", "ring"};
  std::atomic<bool> ready_ = false;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, Start_PortZero_TellsTheBoundPort) {
  EXPECT_THAT(server_->address(), StartsWith("127.0.0.1:"));
  EXPECT_THAT(server_->address(), Not(EndsWith(":0")));
}

TEST_F(MetricsServerTest, Metrics_AfterAnObservation_ShowsIt) {
  StepRecord record;
  record.loss = 2.5;
  metrics_.Observe(record);
  const HttpReply reply = Get("/metrics");
  EXPECT_EQ(reply.code, 200);
  EXPECT_THAT(reply.headers.at("content-type"), StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(reply.body, HasSubstr("gradwire_loss 2.5\n"));
}

// name{label="value",…} number, each family under its HELP and TYPE.
TEST_F(MetricsServerTest, Metrics_EveryLine_IsWellFormed) {
  const std::regex comment("# (HELP|TYPE) gradwire_[a-z_]+ .+");
  const std::regex sample(
      "gradwire_[a-z_]+(\\{[a-z_]+=\"[^\"]*\"(,[a-z_]+=\"[^\"]*\")*\\})? [-+0-9.eInfNa]+");
  const std::string body = Get("/metrics").body;
  ASSERT_THAT(body, EndsWith("\n"));
  for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(std::regex_match(std::string(line), line[0] == '#' ? comment : sample)) << line;
  }
}

TEST_F(MetricsServerTest, Healthz_Always_Is200) {
  const HttpReply reply = Get("/healthz");
  EXPECT_EQ(reply.code, 200);
  EXPECT_EQ(reply.body, "alive\n");
}

TEST_F(MetricsServerTest, Readyz_NotReady_Is503WithAReason) {
  const HttpReply reply = Get("/readyz");
  EXPECT_EQ(reply.code, 503);
  EXPECT_THAT(reply.body, HasSubstr("not ready: some workers have not joined yet"));
}

TEST_F(MetricsServerTest, Readyz_Ready_Is200) {
  ready_ = true;
  EXPECT_EQ(Get("/readyz").code, 200);
}

TEST_F(MetricsServerTest, Get_UnknownPath_Is404AndNamesWhatIsServed) {
  const HttpReply reply = Get("/metric");
  EXPECT_EQ(reply.code, 404);
  EXPECT_EQ(reply.body, "/metric is not served; try /metrics, /healthz, /readyz\n");
}

TEST_F(MetricsServerTest, Request_OtherMethod_Is405) {
  const auto reply = HttpRequest("DELETE", server_->address(), "/metrics");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->code, 405);
}

TEST_F(MetricsServerTest, Request_Head_HasNoBody) {
  const auto reply = HttpRequest("HEAD", server_->address(), "/healthz");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->code, 200);
  EXPECT_EQ(reply->body, "");
}

// Browsers send the cookies of all servers of a host to each of them.
TEST_F(MetricsServerTest, Request_HeadOfAlmost16KiB_IsAnswered) {
  const auto code_of = [this](size_t bytes) {
    const std::string request = absl::StrCat(
        "GET /healthz HTTP/1.1\r\nCookie: ", std::string(bytes, 'x'), "\r\nHost: a\r\n\r\n");
    return testing::Exchange(server_->address(), request, /*half_close=*/false)->substr(9, 3);
  };
  EXPECT_EQ(code_of((16 << 10) - 100), "200");
  EXPECT_EQ(code_of(16 << 10), "431");
}

TEST_F(MetricsServerTest, Request_Garbage_LeavesTheServerServing) {
  (void)testing::Exchange(server_->address(), std::string("\x16\x03\x01\0garbage\r\n\r\n", 15),
                          /*half_close=*/true);
  EXPECT_EQ(Get("/healthz").code, 200);
}

TEST_F(MetricsServerTest, Destructor_Idle_EndsWithinASecond) {
  Get("/healthz");
  const absl::Time start = SteadyNow();
  server_.reset();
  EXPECT_LT(SteadyNow() - start, absl::Seconds(1));
}

TEST(MetricsServer, Start_PortInUse_IsFailedPreconditionAndSaysWhy) {
  const BusyPort busy;
  const auto server = MetricsServer::Start(busy.address(), std::make_shared<prometheus::Registry>(),
                                           [] { return true; });
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(server.status().message()),
              StartsWith("cannot serve metrics on " + busy.address() + ": "));
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("in use"));
}

using BadAddress = std::pair<const char*, const char*>;  // its name here, and itself

class BadAddressTest : public ::testing::TestWithParam<BadAddress> {};

TEST_P(BadAddressTest, Start_BadAddress_IsInvalidArgumentAndSaysWhatWasExpected) {
  const std::string address = GetParam().second;
  const auto server =
      MetricsServer::Start(address, std::make_shared<prometheus::Registry>(), [] { return true; });
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(server.status().message()),
              HasSubstr("got '" + address + "', expected HOST:PORT"));
}

INSTANTIATE_TEST_SUITE_P(MetricsServer, BadAddressTest,
                         ::testing::Values(BadAddress("Empty", ""), BadAddress("PortAlone", "9400"),
                                           BadAddress("NoHost", ":9400"),
                                           BadAddress("NoPort", "localhost:"),
                                           BadAddress("NoNumber", "localhost:http"),
                                           BadAddress("TooLarge", "127.0.0.1:65536"),
                                           BadAddress("Negative", "127.0.0.1:-1")),
                         [](const auto& info) { return info.param.first; });

TEST(MetricsServer, Request_NamesThatWereConfigured_AreAnsweredAndNoOthers) {
  const auto server = *MetricsServer::Start("127.0.0.1:0", std::make_shared<prometheus::Registry>(),
                                            [] { return true; }, nullptr, {"runs.example.com"});
  const auto code_of = [&server](const std::string& host) {
    const std::string request = absl::StrCat("GET /healthz HTTP/1.1\r\nHost: ", host, "\r\n\r\n");
    return testing::Exchange(server->address(), request, /*half_close=*/false)->substr(9, 3);
  };
  EXPECT_EQ(code_of("runs.example.com:9400"), "200");
  EXPECT_EQ(code_of("other.example.com:9400"), "421");
}

TEST(MetricsServerPages, Get_PageOfTheOwner_WithPathQueryAndHost) {
  WorkerMetrics metrics("all-reduce", "ring");
  const auto pages = [](const PageRequest& request) -> absl::optional<Page> {
    if (request.path != "/own") return absl::nullopt;
    return Page{200, "application/json",
                absl::StrCat(request.query, " ", request.host.empty() ? "" : "host")};
  };
  const auto server = *MetricsServer::Start(
      "127.0.0.1:0", metrics.registry(), [] { return true; }, pages);
  const HttpReply own = *HttpGet(server->address(), "/own?points=3");
  EXPECT_EQ(own.body, "points=3 host");
  EXPECT_EQ(own.headers.at("content-type"), "application/json");
  EXPECT_EQ(HttpGet(server->address(), "/other")->code, 404);
}

}  // namespace
}  // namespace gradwire
