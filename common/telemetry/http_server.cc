#include "common/telemetry/http_server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/token.h"

namespace gradwire {

namespace {

// RFC 6761, 6762, 8375, and domains of clusters.
constexpr absl::string_view kPrivateDomains[] = {".local", ".localhost", ".internal", ".home.arpa",
                                                 ".test",  ".svc",       ".cluster"};

bool IsNumeric(const std::string& name) {
  unsigned char address[16];
  return inet_pton(AF_INET, name.c_str(), address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), address) == 1;
}

std::string NameOfThisHost() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? absl::AsciiStrToLower(name) : "";
}

}  // namespace

bool IsOurs(absl::string_view host, const std::vector<std::string>& names) {
  const std::string name = absl::AsciiStrToLower(absl::StripSuffix(WithoutPort(host), "."));
  if (!absl::StrContains(name, ".") || IsNumeric(name)) return true;
  const bool is_private =
      std::any_of(std::begin(kPrivateDomains), std::end(kPrivateDomains),
                  [&](absl::string_view domain) { return absl::EndsWith(name, domain); });
  return is_private || name == NameOfThisHost() ||
         std::any_of(names.begin(), names.end(),
                     [&](const std::string& own) { return absl::EqualsIgnoreCase(own, name); });
}

bool ShowsToken(absl::string_view authorization, absl::string_view token) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(authorization, absl::MaxSplits(' ', 1));
  const absl::string_view said = absl::StripAsciiWhitespace(words.second);
  if (absl::EqualsIgnoreCase(words.first, "Bearer")) return IsSameToken(said, token);
  std::string text;
  if (!absl::EqualsIgnoreCase(words.first, "Basic") || !absl::Base64Unescape(said, &text)) {
    return false;
  }
  const size_t colon = text.find(':');
  return colon != std::string::npos &&
         IsSameToken(absl::string_view(text).substr(colon + 1), token);
}

namespace {

constexpr size_t kMostConnections = 256;
constexpr size_t kMostHeadBytes = 16 << 10;
constexpr absl::Duration kReadTime = absl::Seconds(2);  // for a whole head
// With TLS, whose handshake comes first: a browser may ask its user for a certificate.
constexpr absl::Duration kGreetTime = absl::Seconds(10);
constexpr absl::Duration kWriteTime = absl::Seconds(10);  // for a whole answer
constexpr absl::Duration kDrainTime = absl::Seconds(1);   // for the client to close
constexpr absl::Duration kRest = absl::Milliseconds(100);
constexpr absl::string_view kEndOfHead = "\r\n\r\n";

absl::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
  }
  return "Other";
}

std::string TextOf(const Page& page, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", page.code, " ", ReasonOf(page.code),
                      "\r\nContent-Type: ", page.content_type,
                      "\r\nContent-Length: ", page.body.size(),
                      // A browser then asks its user for the password.
                      page.code == 401 ? "\r\nWWW-Authenticate: Basic realm=\"gradwire\"" : "",
                      "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                      with_body ? page.body : "");
}

Page Refusal(int code, absl::string_view why) {
  return {code, kPlainText, absl::StrCat(why, "\n")};
}

// Returns the value of a header, from lines "Name: value"; empty if it is missing.
absl::string_view HeaderOf(absl::string_view lines, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(lines, "\r\n")) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::EqualsIgnoreCase(header.first, name))
      return absl::StripAsciiWhitespace(header.second);
  }
  return "";
}

// OpenSSL writes to sockets like to files; a closed connection would raise SIGPIPE and end the
// process.
void BlockBrokenPipes() {
  sigset_t broken;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, nullptr);
}

}  // namespace

HttpServer::HttpServer(Listening listening, Handler handler, std::unique_ptr<PageTls> tls)
    : listening_(std::move(listening)),
      handler_(std::move(handler)),
      tls_(std::move(tls)),
      limit_(std::max<size_t>(4, std::min(kMostConnections, DescriptorLimit() / 8))),
      ended_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

HttpServer::~HttpServer() {
  const uint64_t one = 1;
  static_cast<void>(write(ended_.get(), &one, sizeof(one)));
  thread_.join();
}

void HttpServer::Run() {
  BlockBrokenPipes();
  std::vector<pollfd> waited;
  while (Wait(&waited)) {
    // `waited` has the end, the connections in order, then the listening sockets.
    size_t next = 1;
    const absl::Time now = SteadyNow();
    for (auto it = connections_.begin(); it != connections_.end(); ++next) {
      const bool goes_on = waited[next].revents == 0 ? now < it->deadline : GoOn(&*it);
      it = goes_on ? std::next(it) : connections_.erase(it);
    }
    for (const UniqueFd& socket : listening_.sockets) TakeAll(socket);
  }
}

bool HttpServer::Wait(std::vector<pollfd>* waited) {
  absl::Time next = rests_until_ > SteadyNow() ? rests_until_ : absl::InfiniteFuture();
  waited->assign({{ended_.get(), POLLIN, 0}});
  for (const Connection& connection : connections_) {
    waited->push_back({connection.socket.get(), connection.socket.events(), 0});
    next = std::min(next, connection.deadline);
  }
  if (rests_until_ <= SteadyNow()) {
    for (const UniqueFd& socket : listening_.sockets) {
      waited->push_back({socket.get(), POLLIN, 0});
    }
  }
  const absl::Duration left = std::max(next - SteadyNow(), absl::ZeroDuration());
  const bool forever = next == absl::InfiniteFuture();
  poll(waited->data(), waited->size(),
       forever ? -1 : static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  return waited->front().revents == 0;
}

void HttpServer::TakeAll(const UniqueFd& listening) {
  UniqueFd socket;
  while (rests_until_ <= SteadyNow()) {
    const Accepted accepted = Accept(listening, &socket);
    if (accepted == Accepted::kNobody) return;
    if (accepted == Accepted::kNoResources) {
      rests_until_ = SteadyNow() + kRest;
      return;
    }
    MakeRoom();
    PageSocket page(std::move(socket), tls_ == nullptr ? nullptr : tls_->Context());
    const absl::Time deadline = SteadyNow() + (tls_ == nullptr ? kReadTime : kGreetTime);
    Connection& connection =
        connections_.emplace_back(Connection{std::move(page), deadline, State::kReading, ""});
    // Most requests have already arrived.
    if (!GoOn(&connection)) connections_.pop_back();
  }
}

void HttpServer::MakeRoom() {
  if (connections_.size() < limit_) return;
  const auto reads = [](const Connection& c) { return c.state == State::kReading; };
  const auto oldest = std::find_if(connections_.begin(), connections_.end(), reads);
  connections_.erase(oldest == connections_.end() ? connections_.begin() : oldest);
}

bool HttpServer::GoOn(Connection* connection) {
  switch (connection->state) {
    case State::kReading:
      return Read(connection);
    case State::kWriting:
      return Write(connection);
    case State::kDraining:
      return Drain(connection);
  }
  return false;
}

bool HttpServer::Read(Connection* connection) {
  char bytes[4096];
  while (true) {
    const ssize_t got = connection->socket.Receive(bytes, sizeof(bytes));
    if (got == PageSocket::kOver) return End(connection);
    if (got == PageSocket::kLater) return SteadyNow() < connection->deadline;
    connection->text.append(bytes, static_cast<size_t>(got));
    if (absl::StrContains(connection->text, kEndOfHead) ||
        connection->text.size() > kMostHeadBytes) {
      return Answer(connection);
    }
  }
}

bool HttpServer::Answer(Connection* connection) {
  const size_t end = connection->text.find(kEndOfHead.data());
  connection->text =
      end > kMostHeadBytes
          ? TextOf(Refusal(431, absl::StrCat("expected at most ", kMostHeadBytes, " bytes")), true)
          : AnswerTo(absl::string_view(connection->text).substr(0, end), handler_);
  connection->state = State::kWriting;
  connection->deadline = SteadyNow() + kWriteTime;
  return Write(connection);
}

std::string HttpServer::AnswerTo(absl::string_view head, const Handler& handler) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(head, absl::MaxSplits("\r\n", 1));
  const std::vector<absl::string_view> words = absl::StrSplit(parts.first, ' ');
  if (words.size() != 3 || !absl::StartsWith(words[1], "/") ||
      !absl::StartsWith(words[2], "HTTP/1.")) {
    return TextOf(Refusal(400, "expected a request such as GET /metrics HTTP/1.1"), true);
  }
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  const PageRequest request{target.first, target.second, HeaderOf(parts.second, "Host"),
                            HeaderOf(parts.second, "Authorization")};
  return TextOf(handler(words[0], request), words[0] != "HEAD");
}

bool HttpServer::Write(Connection* connection) {
  std::string& text = connection->text;
  while (!text.empty()) {
    const ssize_t sent = connection->socket.Send(text.data(), text.size());
    if (sent == PageSocket::kOver) return false;
    if (sent == PageSocket::kLater) return SteadyNow() < connection->deadline;
    text.erase(0, static_cast<size_t>(sent));
  }
  return End(connection);
}

// If the server closed at once, unread data of the client could discard the answer or TLS's alert.
bool HttpServer::End(Connection* connection) {
  connection->socket.EndSending();
  connection->state = State::kDraining;
  connection->deadline = SteadyNow() + kDrainTime;
  return Drain(connection);
}

bool HttpServer::Drain(Connection* connection) {
  char bytes[4096];
  ssize_t got;
  do {
    got = connection->socket.Receive(bytes, sizeof(bytes));
  } while (got > 0 && SteadyNow() < connection->deadline);
  return got == PageSocket::kLater && SteadyNow() < connection->deadline;
}

}  // namespace gradwire
