#include "common/base/address.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/plain_text.h"

namespace gradwire {

namespace {

constexpr size_t kMostHostBytes = 253;  // limit of DNS

absl::Status BadForm(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("address: got '", Shortened(WithoutControls(text), 100),
                   "', expected HOST:PORT, such as 10.10.1.1:29400 or [::1]:29400"));
}

// Returns whether it is a name or numeric address, perhaps with a zone. Characters that could harm
// a log are refused.
bool IsHost(absl::string_view host) {
  const auto fits = [](char c) { return absl::ascii_isalnum(c) || absl::StrContains(".-_:%", c); };
  return !host.empty() && host.size() <= kMostHostBytes &&
         std::all_of(host.begin(), host.end(), fits);
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return BadForm(text);
  absl::string_view host = text.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ":")) {
    return BadForm(text);
  }
  uint32_t port;
  if (!IsHost(host) || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port > 65535) {
    return BadForm(text);
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

absl::string_view WithoutPort(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "[")) return address.substr(0, address.find(']'));
  return address.substr(0, address.find(':'));
}

std::string ToString(const HostPort& address) {
  const bool ipv6 = absl::StrContains(address.host, ":");
  return absl::StrCat(ipv6 ? "[" : "", address.host, ipv6 ? "]" : "", ":", address.port);
}

bool IsLoopback(absl::string_view host) {
  return absl::StartsWith(host, "127.") || host == "::1" || host == "localhost";
}

std::string ReachableAt(const std::string& bound, const std::string& reachable) {
  const absl::StatusOr<HostPort> listens = ParseHostPort(bound);
  const absl::StatusOr<HostPort> known = ParseHostPort(reachable);
  if (!listens.ok() || !known.ok()) return bound;
  if (listens->host != "0.0.0.0" && listens->host != "::") return bound;
  return ToString({known->host, listens->port});
}

absl::StatusOr<AddressList> Resolve(const HostPort& address, int socket_type) {
  addrinfo hints = {};
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int failure = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) {
    return absl::UnavailableError(absl::AsciiStrToLower(gai_strerror(failure)));
  }
  return AddressList(found, &freeaddrinfo);
}

HostPort NumericAddress(const sockaddr* address) {
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return {};
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  uint32_t number = 0;
  if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0 ||
      !absl::SimpleAtoi(port, &number)) {
    return {};
  }
  return {host, static_cast<uint16_t>(number)};
}

std::vector<std::string> NumericHosts(const addrinfo* list) {
  std::vector<std::string> hosts;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    hosts.push_back(NumericAddress(each->ai_addr).host);
  }
  return hosts;
}

std::string ErrorWords(int error) { return absl::AsciiStrToLower(std::strerror(error)); }

std::string WhyNotBound(const HostPort& address) {
  const absl::StatusOr<AddressList> targets = Resolve(address, SOCK_STREAM);
  if (!targets.ok()) return std::string(targets.status().message());
  const addrinfo& target = **targets;
  const UniqueFd fd(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return ErrorWords(errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound =
      bind(fd.get(), target.ai_addr, target.ai_addrlen) == 0 && listen(fd.get(), 1) == 0;
  return bound ? "binding failed, but the address is free now" : ErrorWords(errno);
}

namespace {

// The system may allow a billion, but some libraries make tables of that size.
constexpr rlim_t kEnough = 65536;

}  // namespace

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

size_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // the usual limit
  return static_cast<size_t>(std::min(limit.rlim_cur, kEnough));
}

namespace {

constexpr int kBacklog = 512;

uint16_t& PortOf(sockaddr_storage* address) {
  return address->ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

// Returns none if binding fails. `port`: 0, or the port of the earlier sockets; receives this one's
// port.
UniqueFd ListenOn(const addrinfo& target, bool both_kinds, uint16_t* port) {
  UniqueFd fd(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int only_ipv6 = both_kinds ? 0 : 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (target.ai_family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof(only_ipv6));
  }
  sockaddr_storage address = {};
  std::memcpy(&address, target.ai_addr, target.ai_addrlen);
  if (*port != 0) PortOf(&address) = htons(*port);
  socklen_t length = target.ai_addrlen;
  if (fd.get() < 0 || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), kBacklog) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return UniqueFd();
  }
  *port = ntohs(PortOf(&address));
  return fd;
}

absl::StatusOr<Listening> ListenAtName(const HostPort& address, bool both_kinds) {
  const absl::StatusOr<AddressList> targets = Resolve(address, SOCK_STREAM);
  if (!targets.ok()) return absl::FailedPreconditionError(targets.status().message());
  return ListenAtEach(targets->get(), address, both_kinds);
}

}  // namespace

absl::StatusOr<Listening> ListenAtEach(const addrinfo* targets, const HostPort& address,
                                       bool both_kinds) {
  Listening listening{{}, address};
  for (const addrinfo* target = targets; target != nullptr; target = target->ai_next) {
    UniqueFd socket = ListenOn(*target, both_kinds, &listening.address.port);
    if (socket.get() >= 0) listening.sockets.push_back(std::move(socket));
  }
  if (listening.sockets.empty()) return absl::FailedPreconditionError(WhyNotBound(address));
  return listening;
}

absl::StatusOr<Listening> ListenAt(const HostPort& address) {
  if (address.host != "0.0.0.0" && address.host != "::") return ListenAtName(address, false);
  absl::StatusOr<Listening> all = ListenAtName({"::", address.port}, /*both_kinds=*/true);
  // A host without IPv6.
  if (!all.ok()) all = ListenAtName({"0.0.0.0", address.port}, false);
  if (all.ok()) all->address.host = address.host;
  return all;
}

Accepted Accept(const UniqueFd& listening, UniqueFd* connection) {
  connection->Reset(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection->get() >= 0) {
    const int on = 1;
    setsockopt(connection->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return Accepted::kConnection;
  }
  const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return exhausted ? Accepted::kNoResources : Accepted::kNobody;
}

}  // namespace gradwire
