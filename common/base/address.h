#ifndef GRADWIRE_COMMON_BASE_ADDRESS_H_
#define GRADWIRE_COMMON_BASE_ADDRESS_H_

#include <netdb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The address of a server. `host` is a name or a numeric address without brackets, as for
// getaddrinfo.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Parses "10.10.1.1:29400", "node0:29400" or "[fd00::1]:29400". InvalidArgument, with the text, if
// it has another form.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// Returns "10.10.1.1:29400", with brackets around an IPv6 address.
std::string ToString(const HostPort& address);

// Returns the host of "10.10.1.2:4711", "[fd00::1]:29400" or "localhost", without brackets and
// port. Workers whose addresses have the same host are on one host.
absl::string_view WithoutPort(absl::string_view address);

// Returns true for 127.*, ::1 and localhost: other hosts cannot reach these addresses.
bool IsLoopback(absl::string_view host);

// Returns `bound`, the address of a server ("0.0.0.0:9400"). If that means all addresses, its host
// is replaced by the host of `reachable` ("10.10.1.2:4711"), which is on the same machine.
std::string ReachableAt(const std::string& bound, const std::string& reachable);

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns all addresses of `address`, in the system's order of preference; never empty.
// `socket_type` is SOCK_STREAM or SOCK_DGRAM. Unavailable if the name is unknown.
absl::StatusOr<AddressList> Resolve(const HostPort& address, int socket_type);

// Returns the numeric form; port 0 and an empty host if it is neither IPv4 nor IPv6.
HostPort NumericAddress(const sockaddr* address);

// Returns the numeric hosts of a list, in its order.
std::vector<std::string> NumericHosts(const addrinfo* list);

// Returns strerror's text in lower case, as part of a sentence: "connection refused".
std::string ErrorWords(int error);

// Returns the system's reason why no server can listen at `address` ("address already in use"). The
// libraries that failed do not report it, so this tries once more.
std::string WhyNotBound(const HostPort& address);

// Owns a file descriptor; -1: none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(other.Release());
    return *this;
  }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);  // closes its descriptor

 private:
  int fd_ = -1;
};

// Raises this process's limit of descriptors as far as allowed. Call it at the start of a program:
// a server without free descriptors accepts no connections.
void RaiseDescriptorLimit();

// Returns this process's limit of descriptors.
size_t DescriptorLimit();

// Listening sockets.
struct Listening {
  std::vector<UniqueFd> sockets;  // non-blocking, with one port; not empty
  HostPort address;               // as requested, with the bound port
};

// Listens on all addresses of `address`; 0.0.0.0 and :: stand for all IPv4 and IPv6 addresses of
// this host. Port 0 selects a free port; a port in use is an error. FailedPrecondition if no
// address can be bound, with the reason as part of a sentence.
absl::StatusOr<Listening> ListenAt(const HostPort& address);
// The same on the addresses of a list, which are those of `address`. `both_kinds`: an IPv6 socket
// takes IPv4 connections, too.
absl::StatusOr<Listening> ListenAtEach(const addrinfo* targets, const HostPort& address,
                                       bool both_kinds = false);

// Result of an attempt to accept.
enum class Accepted {
  kConnection,
  kNobody,       // no connection is waiting
  kNoResources,  // no descriptor or memory is left; try again later
};
// Accepts the next connection of a listening socket; it is non-blocking, with TCP_NODELAY.
Accepted Accept(const UniqueFd& listening, UniqueFd* connection);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_ADDRESS_H_
