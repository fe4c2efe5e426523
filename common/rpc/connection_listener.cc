#include "common/rpc/connection_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gradwire {
namespace {

constexpr size_t kMostConnections = 16384;
constexpr int kAnswerMs = 5000;  // for a peer to acknowledge sent data
constexpr int kRestMs = 100;     // after an attempt without resources

uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

}  // namespace

ConnectionListener::ConnectionListener(Listening listening, std::unique_ptr<Acceptor> acceptor)
    : listening_(std::move(listening)),
      acceptor_(std::move(acceptor)),
      limit_(std::min(kMostConnections, DescriptorLimit() / 2)),
      ended_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

ConnectionListener::~ConnectionListener() {
  const uint64_t one = 1;
  static_cast<void>(write(ended_.get(), &one, sizeof(one)));
  thread_.join();
}

void ConnectionListener::Run() {
  bool listens = true;
  while (Wait(listens)) {
    listens = true;
    for (const UniqueFd& socket : listening_.sockets) listens &= TakeAll(socket);
  }
}

bool ConnectionListener::Wait(bool listens) {
  std::vector<pollfd> waited = {{ended_.get(), POLLIN, 0}};
  if (listens) {
    for (const UniqueFd& socket : listening_.sockets) {
      waited.push_back({socket.get(), POLLIN, 0});
    }
  }
  poll(waited.data(), waited.size(), listens ? -1 : kRestMs);
  return waited.front().revents == 0;
}

bool ConnectionListener::TakeAll(const UniqueFd& listening) {
  UniqueFd connection;
  while (true) {
    switch (Accept(listening, &connection)) {
      case Accepted::kConnection:
        Take(listening, std::move(connection));
        break;
      case Accepted::kNobody:
        return true;
      case Accepted::kNoResources:
        if (int left_out; failures_.MayLog(&left_out)) {
          spdlog::error("no descriptor or memory is left for a connection; trying again");
        }
        return false;
    }
  }
}

void ConnectionListener::Take(const UniqueFd& listening, UniqueFd connection) {
  if (!HasRoom()) {
    if (int left_out; refusals_.MayLog(&left_out)) {
      spdlog::warn(
          "closed a connection, and {} before it: reached the limit of {} open connections",
          left_out, limit_);
    }
    return;
  }
  // gRPC's own listener does the same for a server with keepalive.
  setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kAnswerMs, sizeof(kAnswerMs));
  connections_.push_back({connection.get(), CookieOf(connection.get())});
  Acceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening.get();
  parameters.fd = connection.Release();
  acceptor_->HandleNewConnection(&parameters);
}

bool ConnectionListener::HasRoom() {
  if (connections_.size() < limit_) return true;
  const auto is_over = [](const Connection& c) { return CookieOf(c.fd) != c.cookie; };
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), is_over),
                     connections_.end());
  return connections_.size() < limit_;
}

}  // namespace gradwire
