#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/telemetry/http_server.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/metrics_server.h"
#include "tests/support/sockets.h"

namespace gradwire {
namespace {

constexpr char kToken[] = "the-token-of-this-run";

std::string Basic(const std::string& text) {
  return absl::StrCat("Basic ", absl::Base64Escape(text));
}

TEST(ShowsToken, BearerOrPassword_IsTaken) {
  EXPECT_TRUE(ShowsToken(absl::StrCat("Bearer ", kToken), kToken));
  EXPECT_TRUE(ShowsToken(absl::StrCat("bearer  ", kToken), kToken));
  EXPECT_TRUE(ShowsToken(Basic(absl::StrCat("anybody:", kToken)), kToken));
  EXPECT_TRUE(ShowsToken(Basic(absl::StrCat(":", kToken)), kToken));
}

TEST(ShowsToken, AnythingElse_IsNot) {
  for (const std::string& wrong :
       {std::string(), std::string(kToken), std::string("Bearer"), std::string("Bearer "),
        std::string("Bearer the-token-of-another"), absl::StrCat("Digest ", kToken),
        absl::StrCat("Basic ", kToken), Basic(kToken), Basic(absl::StrCat(kToken, ":")),
        Basic("anybody:the-token-of-another"), std::string("Basic !!!")}) {
    EXPECT_FALSE(ShowsToken(wrong, kToken)) << wrong;
  }
}

TEST(MetricsServerWithToken, PagesAskForIt_ProbesDoNot) {
  WorkerMetrics metrics("all-reduce", "ring");
  const auto server = *MetricsServer::Start("127.0.0.1:0", metrics.registry(), [] { return true; },
                                            nullptr, {}, {kToken, {}});
  const auto code_of = [&server](const std::string& path, const std::string& header) {
    const std::string request =
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n", header, "\r\n");
    return testing::Exchange(server->address(), request, /*half_close=*/false)->substr(9, 3);
  };
  const std::string right = absl::StrCat("Authorization: Bearer ", kToken, "\r\n");
  EXPECT_EQ(code_of("/metrics", ""), "401");
  EXPECT_EQ(code_of("/metrics", "Authorization: Bearer the-token-of-another\r\n"), "401");
  EXPECT_EQ(code_of("/nowhere", ""), "401");
  EXPECT_EQ(code_of("/metrics", right), "200");
  EXPECT_EQ(code_of("/nowhere", right), "404");
  // Some proxies write names of headers small.
  EXPECT_EQ(code_of("/metrics", absl::StrCat("authorization: Bearer ", kToken, "\r\n")), "200");
  EXPECT_EQ(code_of("/healthz", ""), "200");
  EXPECT_EQ(code_of("/readyz", ""), "200");
}

}  // namespace
}  // namespace gradwire
