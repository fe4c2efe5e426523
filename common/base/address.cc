#include "common/base/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/plain_text.h"

namespace gradwire {
namespace {

constexpr size_t kMostHostBytes = 253;  // as DNS has it

absl::Status BadForm(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("address: got '", Shortened(WithoutControls(text), 100),
                   "', expected HOST:PORT, such as 10.10.1.1:29400 or [::1]:29400"));
}

// A name or numeric address, perhaps with a zone; nothing that could do harm in a log.
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

std::string WhyNotBound(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return absl::AsciiStrToLower(gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::AsciiStrToLower(std::strerror(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const std::string why = bound ? "it was refused, but is free now" : std::strerror(errno);
  close(fd);
  return absl::AsciiStrToLower(why);
}

}  // namespace gradwire
