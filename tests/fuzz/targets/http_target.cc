// What an HTTP server makes of the head of a request, and the pages of a coordinator's run.
//
//   the whole input  the head, without the empty line

#include <map>
#include <memory>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/telemetry/http_server.h"
#include "coordinator/pages/run_pages.h"
#include "tests/fuzz/fuzz_target.h"

namespace gradwire {
namespace {

// As MetricsServer and Coordinator answer.
Page Answer(absl::string_view method, const PageRequest& request) {
  if (!IsOurs(request.host, {"node0.example"})) return {421, "text/plain", "no name of ours\n"};
  if (method != "GET" && method != "HEAD") return {405, "text/plain", absl::StrCat(method, "\n")};
  if (auto other = AnswerOtherRun(request.query, "0123")) return *std::move(other);
  const absl::StatusOr<size_t> points = PointsOfQuery(request.query);
  if (!points.ok()) return {400, "text/plain", std::string(points.status().message())};
  if (request.path == "/history.json") {
    return {200, "application/json", HistoryJson(RunHistory(), "0123", *points)};
  }
  return {404, "text/plain", absl::StrCat(request.path, " is not served\n")};
}

// The head and the body of an answer; the body is what the head says.
std::string CheckAnswer(absl::string_view answer, bool has_body) {
  const size_t end = answer.find("\r\n\r\n");
  if (end == absl::string_view::npos) return "an answer has no end of its head";
  const std::vector<std::string> lines = absl::StrSplit(answer.substr(0, end), "\r\n");
  const std::set<absl::string_view> codes = {"200", "400", "404", "405", "421"};
  const std::vector<std::string> words = absl::StrSplit(lines.front(), absl::MaxSplits(' ', 2));
  if (words.size() != 3 || words[0] != "HTTP/1.1" || codes.count(words[1]) == 0) {
    return absl::StrCat("got status line ", lines.front());
  }
  if (lines.size() != 5) return "a request puts lines into the head of its answer";
  absl::string_view length = lines[2];
  size_t bytes = 0;
  if (!absl::ConsumePrefix(&length, "Content-Length: ") || !absl::SimpleAtoi(length, &bytes)) {
    return absl::StrCat("got line ", lines[2]);
  }
  const size_t got = answer.size() - end - 4;
  return got == (has_body ? bytes : 0) ? "" : "the body has another length";
}

}  // namespace

std::string ViolatedByHttp(absl::string_view head) {
  bool was_head = false;
  std::string violated;
  const auto handler = [&](absl::string_view method, const PageRequest& request) {
    was_head = method == "HEAD";
    if (request.path.empty() || request.path[0] != '/') violated = "a page without a path";
    if (request.path.find('?') != absl::string_view::npos) violated = "a path with a query";
    return Answer(method, request);
  };
  const std::string answer = HttpServer::AnswerTo(head, handler);
  return violated.empty() ? CheckAnswer(answer, !was_head) : violated;
}

std::vector<std::string> HttpSeeds() {
  const std::string host = "\r\nHost: 10.10.1.1:9400";
  return {"",
          "GET / HTTP/1.1" + host,
          "GET /history.json?points=600 HTTP/1.1" + host + "\r\nAccept: */*",
          "GET /history.json?points=18446744073709551616&points=0 HTTP/1.0",
          "GET /metrics?run=0123&run=4567 HTTP/1.1" + host,
          "HEAD /healthz HTTP/1.1\r\nhost:[::1]:9400",
          "POST / HTTP/1.1\r\nHost: node0.example\r\nContent-Length: 3",
          "GET / HTTP/1.1\r\nHost: evil.example.com",
          "GET /\r\nX: y HTTP/1.1" + host,
          "GET /a\rb HTTP/1.1\nHost: localhost",
          "GET  / HTTP/1.1",
          "GET http://node0/ HTTP/1.1",
          std::string("GET /\0\xff HTTP/1.1", 16) + host};
}

}  // namespace gradwire
