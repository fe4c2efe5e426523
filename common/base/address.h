#ifndef GRADWIRE_COMMON_BASE_ADDRESS_H_
#define GRADWIRE_COMMON_BASE_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// Where something listens. `host` is a name or a numeric address without
// brackets, as getaddrinfo takes it.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Takes "10.10.1.1:29400", "node0:29400" or "[fd00::1]:29400" apart.
// InvalidArgument if the text has another form; the message shows the text.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// "10.10.1.1:29400"; an IPv6 address gets its brackets.
std::string ToString(const HostPort& address);

// True for 127.*, ::1 and localhost: addresses that other hosts cannot reach.
bool IsLoopback(absl::string_view host);

// `bound`, where something listens ("0.0.0.0:9400"), with the host of `reachable`
// ("10.10.1.2:4711", of the same machine) if it listens on all addresses.
std::string ReachableAt(const std::string& bound, const std::string& reachable);

// Why nothing can listen at `address`, as the system says ("address already in use"): the libraries
// that tried do not tell. Tries it once more for that.
std::string WhyNotBound(const HostPort& address);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_ADDRESS_H_
