#include "cli/status/http_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

constexpr size_t kMaxBytes = 64 << 20;

// How long an exchange may last.
struct Limit {
  absl::Duration timeout;
  absl::Time deadline;
};

absl::Status Unreachable(int error) {
  return absl::UnavailableError(absl::AsciiStrToLower(std::strerror(error)));
}

// Waits until `socket` can be read or written, as `events` says.
absl::Status Await(int socket, int16_t events, const Limit& limit) {
  for (;;) {
    const absl::Duration left = limit.deadline - absl::Now();
    pollfd ready = {socket, events, 0};
    const auto wait = std::max<int64_t>(0, absl::ToInt64Milliseconds(left) + 1);
    const int got = poll(&ready, 1, static_cast<int>(std::min<int64_t>(wait, INT32_MAX)));
    if (got > 0) return absl::OkStatus();
    if (got < 0 && errno != EINTR) return Unreachable(errno);
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no whole answer within ", absl::FormatDuration(limit.timeout)));
    }
  }
}

absl::Status Connect(int socket, const addrinfo& place, const Limit& limit) {
  if (connect(socket, place.ai_addr, place.ai_addrlen) == 0) return absl::OkStatus();
  if (errno != EINPROGRESS) return Unreachable(errno);
  const absl::Status ready = Await(socket, POLLOUT, limit);
  if (!ready.ok()) return ready;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : Unreachable(error);
}

// The caller closes it. Tries all addresses of the host; the error is of the last one.
absl::StatusOr<int> Open(const HostPort& address, const Limit& limit) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::AsciiStrToLower(gai_strerror(error)));
  const auto free_found = absl::MakeCleanup([found] { freeaddrinfo(found); });
  absl::Status status;
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    const int opened = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (opened < 0) return Unreachable(errno);
    status = Connect(opened, *place, limit);
    if (status.ok()) return opened;
    close(opened);
  }
  return status;
}

// A request is shorter than any socket's buffer.
absl::Status Send(int socket, absl::string_view request) {
  const ssize_t sent = send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(request.size())) return absl::OkStatus();
  return sent < 0 ? Unreachable(errno) : absl::UnavailableError("the connection is full");
}

// All that comes until the other side closes; a reset ends it like a close.
absl::StatusOr<std::string> ReceiveAll(int socket, const Limit& limit) {
  std::string all;
  std::vector<char> buffer(65536);
  for (;;) {
    const absl::Status ready = Await(socket, POLLIN, limit);
    if (!ready.ok()) return ready;
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return all;
    all.append(buffer.data(), static_cast<size_t>(got));
    if (all.size() > kMaxBytes) {
      return absl::FailedPreconditionError("the answer is longer than 64 MiB");
    }
  }
}

// Content-Length among the lines of a head.
absl::optional<size_t> LengthOf(const std::vector<absl::string_view>& lines) {
  for (const absl::string_view line : lines) {
    const std::pair<absl::string_view, absl::string_view> header =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    size_t length = 0;
    if (!absl::EqualsIgnoreCase(header.first, "content-length")) continue;
    if (absl::SimpleAtoi(header.second, &length)) return length;
  }
  return absl::nullopt;
}

absl::StatusOr<std::string> BodyOf(const std::string& answer, absl::string_view path) {
  const size_t end = answer.find("\r\n\r\n");
  const absl::string_view head = absl::string_view(answer).substr(0, end);
  const std::vector<absl::string_view> lines = absl::StrSplit(head, "\r\n");
  const std::vector<absl::string_view> first = absl::StrSplit(lines[0], ' ');
  int code = 0;
  if (end == std::string::npos || !absl::StartsWith(first[0], "HTTP/1.") || first.size() < 2 ||
      !absl::SimpleAtoi(first[1], &code)) {
    return absl::FailedPreconditionError("the answer is not HTTP");
  }
  if (code != 200) {
    return absl::FailedPreconditionError(
        absl::StrCat("got ", code, " for ", path, ", expected 200"));
  }
  std::string body = answer.substr(end + 4);
  const absl::optional<size_t> length = LengthOf(lines);
  if (!length || body.size() >= *length) return body;
  return absl::FailedPreconditionError(
      absl::StrCat("the answer ended after ", body.size(), " of ", *length, " bytes"));
}

}  // namespace

absl::StatusOr<std::string> HttpGet(absl::string_view address, absl::string_view path,
                                    absl::Duration timeout) {
  const absl::StatusOr<HostPort> place = ParseHostPort(address);
  if (!place.ok()) return place.status();
  const Limit limit = {timeout, absl::Now() + timeout};
  const absl::StatusOr<int> opened = Open(*place, limit);
  if (!opened.ok()) return opened.status();
  const auto close_it = absl::MakeCleanup([&] { close(*opened); });
  // With HTTP/1.0 the body comes in one piece and ends with the connection.
  const absl::Status sent = Send(
      *opened, absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: ", ToString(*place), "\r\n\r\n"));
  if (!sent.ok()) return sent;
  const absl::StatusOr<std::string> answer = ReceiveAll(*opened, limit);
  if (!answer.ok()) return answer.status();
  return BodyOf(*answer, path);
}

}  // namespace gradwire
