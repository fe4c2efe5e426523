#ifndef GRADWIRE_COMMON_BASE_ADDRESS_H_
#define GRADWIRE_COMMON_BASE_ADDRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  void Reset(int fd = -1);  // closes what it has

 private:
  int fd_ = -1;
};

// Lets this process have as many descriptors as it may. To be called at the start of a program:
// a server that has none left takes no one in any more.
void RaiseDescriptorLimit();

// How many descriptors this process may have.
size_t DescriptorLimit();

// Sockets that listen.
struct Listening {
  std::vector<UniqueFd> sockets;  // non-blocking, all of one port; not empty
  HostPort address;               // as asked for, with the port that was bound
};

// Listens at all addresses that `address` stands for; 0.0.0.0 and :: stand for all of this host,
// of both kinds. Port 0 picks a free one; a port in use is refused, not shared.
// FailedPrecondition if none can be bound: says why, as part of a sentence.
absl::StatusOr<Listening> ListenAt(const HostPort& address);

// What came of an attempt to accept.
enum class Accepted {
  kConnection,
  kNobody,       // who was there is gone, or nobody was
  kNoResources,  // descriptors or memory; worth another try after a while
};
// Takes the next connection of a listening socket; it is non-blocking, with TCP_NODELAY.
Accepted Accept(const UniqueFd& listening, UniqueFd* connection);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_ADDRESS_H_
