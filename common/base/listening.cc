#include "common/base/listening.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr int kBacklog = 512;

// None if the name is not known.
AddressList AddressesOf(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  if (getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return AddressList(found, [](addrinfo* list) {
    if (list != nullptr) freeaddrinfo(list);
  });
}

uint16_t& PortOf(sockaddr_storage* address) {
  return address->ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(address)->sin6_port
                                        : reinterpret_cast<sockaddr_in*>(address)->sin_port;
}

// None if it cannot be bound. `port`: 0, or what the sockets before it have; gets what this one
// has.
Descriptor ListenOn(const addrinfo& target, bool both_kinds, uint16_t* port) {
  Descriptor fd(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
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
    return Descriptor();
  }
  *port = ntohs(PortOf(&address));
  return fd;
}

absl::StatusOr<Listening> ListenAtEach(const HostPort& address, bool both_kinds) {
  const AddressList targets = AddressesOf(address);
  Listening listening{{}, address};
  for (const addrinfo* target = targets.get(); target != nullptr; target = target->ai_next) {
    Descriptor socket = ListenOn(*target, both_kinds, &listening.address.port);
    if (socket.get() >= 0) listening.sockets.push_back(std::move(socket));
  }
  if (listening.sockets.empty()) return absl::FailedPreconditionError(WhyNotBound(address));
  return listening;
}

}  // namespace

absl::StatusOr<Listening> ListenAt(const HostPort& address) {
  if (address.host != "0.0.0.0" && address.host != "::") return ListenAtEach(address, false);
  absl::StatusOr<Listening> all = ListenAtEach({"::", address.port}, /*both_kinds=*/true);
  // A host without IPv6.
  if (!all.ok()) all = ListenAtEach({"0.0.0.0", address.port}, false);
  if (all.ok()) all->address.host = address.host;
  return all;
}

Accepted Accept(const Descriptor& listening, Descriptor* connection) {
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
