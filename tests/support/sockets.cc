#include "tests/support/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"

namespace gradwire::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int PortOf(absl::string_view address) {
  int port = 0;
  const std::vector<absl::string_view> parts = absl::StrSplit(address, ':');
  return absl::SimpleAtoi(parts.back(), &port) ? port : 0;
}

// Below those that Linux gives to sockets which ask for any.
constexpr int kFirstPort = 12000;
constexpr int kLastPort = 32000;

bool CanListen(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto close_listener = absl::MakeCleanup([listener] { close(listener); });
  const sockaddr_in address = Loopback(port);
  return bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
         listen(listener, 1) == 0;
}

absl::Status SendAll(int socket, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return absl::UnavailableError(absl::StrCat("send: ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

// A reset ends the answer like a close does.
absl::StatusOr<std::string> ReceiveAll(int socket, absl::Time deadline) {
  std::string all;
  char buffer[4096];
  for (;;) {
    pollfd ready = {socket, POLLIN, 0};
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration() ||
        poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) == 0) {
      return absl::DeadlineExceededError(absl::StrCat("still open after ", all.size(), " bytes"));
    }
    const ssize_t got = recv(socket, buffer, sizeof(buffer), 0);
    if (got <= 0) return all;
    all.append(buffer, static_cast<size_t>(got));
  }
}

absl::StatusOr<HttpReply> ParseReply(absl::string_view text) {
  const size_t end = text.find("\r\n\r\n");
  const std::vector<absl::string_view> lines = absl::StrSplit(text.substr(0, end), "\r\n");
  const std::vector<absl::string_view> first = absl::StrSplit(lines[0], ' ');
  HttpReply reply;
  if (end == absl::string_view::npos || first.size() < 3 ||
      !absl::SimpleAtoi(first[1], &reply.code)) {
    return absl::InvalidArgumentError(absl::StrCat("not HTTP: '", text.substr(0, 80), "'"));
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    reply.headers[absl::AsciiStrToLower(header.first)] = header.second;
  }
  reply.body = std::string(text.substr(end + 4));
  return reply;
}

}  // namespace

absl::StatusOr<std::string> Exchange(absl::string_view address, absl::string_view bytes,
                                     bool half_close, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto close_peer = absl::MakeCleanup([peer] { close(peer); });
  const sockaddr_in to = Loopback(PortOf(address));
  if (connect(peer, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return absl::UnavailableError(absl::StrCat(address, ": ", std::strerror(errno)));
  }
  const absl::Status sent = SendAll(peer, bytes);
  if (!sent.ok()) return sent;
  if (half_close) shutdown(peer, SHUT_WR);
  return ReceiveAll(peer, deadline);
}

absl::StatusOr<HttpReply> HttpRequest(absl::string_view method, absl::string_view address,
                                      absl::string_view path) {
  const std::string request = absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", address,
                                           "\r\nConnection: close\r\n\r\n");
  const auto text = Exchange(address, request, /*half_close=*/false);
  if (!text.ok()) return text.status();
  return ParseReply(*text);
}

absl::StatusOr<HttpReply> HttpGet(absl::string_view address, absl::string_view path) {
  return HttpRequest("GET", address, path);
}

BusyPort::BusyPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket_, 1) != 0 ||
      getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
}

BusyPort::~BusyPort() { close(socket_); }

std::string BusyPort::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::string UnusedAddress() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstPort, kLastPort);
  int port = ports(random);
  while (!CanListen(port)) port = ports(random);
  return absl::StrCat("127.0.0.1:", port);
}

}  // namespace gradwire::testing
