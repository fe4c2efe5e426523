#include "common/session/resolve.h"

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

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

}  // namespace gradwire
