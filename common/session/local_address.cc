#include "common/session/local_address.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/status_util.h"

namespace gradwire {

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

HostPort NumericAddress(const sockaddr* address, socklen_t length) {
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

std::string ErrorWords(int error) { return absl::AsciiStrToLower(std::strerror(error)); }

namespace {

// A connected UDP socket knows the source address of its packets.
absl::StatusOr<std::string> SourceTowards(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::UnavailableError(ErrorWords(errno));
  sockaddr_storage local = {};
  socklen_t length = sizeof(local);
  const bool known = connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0;
  const int error = errno;
  close(fd);
  if (!known) return absl::UnavailableError(ErrorWords(error));
  return NumericAddress(reinterpret_cast<const sockaddr*>(&local), length).host;
}

}  // namespace

absl::StatusOr<std::string> LocalAddressTowards(absl::string_view coordinator) {
  const absl::StatusOr<HostPort> address = ParseHostPort(coordinator);
  if (!address.ok()) return address.status();
  const std::string context = absl::StrCat("no route to coordinator ", coordinator);
  const absl::StatusOr<AddressList> targets = Resolve(*address, SOCK_DGRAM);
  if (!targets.ok()) return Annotate(targets.status(), context);
  absl::Status failure;
  for (const addrinfo* target = targets->get(); target != nullptr; target = target->ai_next) {
    absl::StatusOr<std::string> source = SourceTowards(*target);
    if (source.ok()) return source;
    failure = source.status();
  }
  return Annotate(failure, context);
}

absl::StatusOr<std::string> ListenAddressOf(const std::string& listen, const std::string& advertise,
                                            const std::string& coordinator) {
  if (!listen.empty()) return listen;
  if (!advertise.empty()) return ToString(HostPort{"0.0.0.0", 0});
  absl::StatusOr<std::string> local = LocalAddressTowards(coordinator);
  if (!local.ok()) return local.status();
  return ToString(HostPort{*std::move(local), 0});
}

absl::StatusOr<std::string> AdvertisedAddress(const std::string& advertise,
                                              const std::string& coordinator,
                                              const std::string& bound) {
  absl::StatusOr<HostPort> served = ParseHostPort(bound);
  if (!served.ok()) return served.status();
  std::string source = "--advertise";
  std::string host = advertise;
  if (host.empty()) {
    absl::StatusOr<std::string> local = LocalAddressTowards(coordinator);
    if (!local.ok()) return local.status();
    host = *std::move(local);
    source = absl::StrCat("the address of this host towards ", coordinator);
  }
  const std::string address = ToString(HostPort{host, served->port});
  spdlog::info("address of this process for others: {} ({})", address, source);
  return address;
}

}  // namespace gradwire
