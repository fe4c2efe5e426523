#include "common/session/probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/address.h"
#include "common/session/resolve.h"

namespace gradwire {
namespace {

constexpr int kAnswerMilliseconds = 2000;

// A socket that closes itself.
class Socket {
 public:
  explicit Socket(const addrinfo& target)
      : fd_(socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool Answers(const addrinfo& target) {
  const Socket socket(target);
  if (connect(socket.fd(), target.ai_addr, target.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd waiting = {socket.fd(), POLLOUT, 0};
  if (poll(&waiting, 1, kAnswerMilliseconds) != 1) return false;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0;
}

// Only an address of this host can be bound; the port is left to the system.
bool IsOfThisHost(const HostPort& numeric) {
  const absl::StatusOr<AddressList> any_port = Resolve({numeric.host, 0}, SOCK_STREAM);
  if (!any_port.ok()) return false;
  const Socket socket(**any_port);
  return bind(socket.fd(), (*any_port)->ai_addr, (*any_port)->ai_addrlen) == 0;
}

}  // namespace

absl::StatusOr<Place> Probe(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<AddressList> targets = Resolve(*parsed, SOCK_STREAM);
  if (!targets.ok()) return Place::kElsewhere;
  Place place = Place::kElsewhere;
  for (const addrinfo* target = targets->get(); target != nullptr; target = target->ai_next) {
    if (Answers(*target)) return Place::kServed;
    if (IsOfThisHost(NumericAddress(target->ai_addr, target->ai_addrlen))) place = Place::kFree;
  }
  return place;
}

}  // namespace gradwire
