#include "tests/support/flipping_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/address.h"

namespace gradwire::testing {
namespace {

constexpr int kLookMilliseconds = 20;

// Of 127.0.0.1.
UniqueFd ConnectTo(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Reset();
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

bool SendAll(int fd, const uint8_t* bytes, ssize_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= sent;
  }
  return true;
}

}  // namespace

void BitFlip::Pass(uint8_t* bytes, size_t size) {
  const uint64_t first = passed_.fetch_add(size);
  if (byte_ < first || byte_ - first >= size) return;
  bytes[byte_ - first] = static_cast<uint8_t>(bytes[byte_ - first] ^ (1 << bit_));
}

FlippingProxy::FlippingProxy(const std::string& target, BitFlip* flip)
    : target_(target),
      flip_(flip),
      listening_(ListenAt({"127.0.0.1", 0}).value()),
      address_(ToString(listening_.address)),
      thread_([this] { AcceptAll(); }) {}

FlippingProxy::~FlippingProxy() {
  ended_ = true;
  thread_.join();
  for (const Connection& connection : connections_) {
    shutdown(connection.client.get(), SHUT_RDWR);
    shutdown(connection.server.get(), SHUT_RDWR);
  }
  for (Connection& connection : connections_) {
    connection.up.join();
    connection.down.join();
  }
}

void FlippingProxy::AcceptAll() {
  const uint16_t port = ParseHostPort(target_)->port;
  pollfd waiting = {listening_.sockets.front().get(), POLLIN, 0};
  while (!ended_) {
    if (poll(&waiting, 1, kLookMilliseconds) != 1) continue;
    UniqueFd client(accept4(waiting.fd, nullptr, nullptr, SOCK_CLOEXEC));
    UniqueFd server = ConnectTo(port);
    if (client.get() < 0 || server.get() < 0) continue;
    Connection& made = connections_.emplace_back();
    made.client = std::move(client);
    made.server = std::move(server);
    made.up = std::thread([this, &made] { PassOn(made.client, made.server, made); });
    made.down = std::thread([this, &made] { PassOn(made.server, made.client, made); });
  }
}

void FlippingProxy::PassOn(const UniqueFd& from, const UniqueFd& to, const Connection& connection) {
  uint8_t bytes[65536];
  ssize_t got;
  while ((got = recv(from.get(), bytes, sizeof(bytes), 0)) > 0) {
    flip_->Pass(bytes, static_cast<size_t>(got));
    if (!SendAll(to.get(), bytes, got)) break;
  }
  shutdown(connection.client.get(), SHUT_RDWR);
  shutdown(connection.server.get(), SHUT_RDWR);
}

std::string FlippedNetwork::Through(const std::string& address) {
  proxies_.push_back(std::make_unique<FlippingProxy>(address, flip_));
  return proxies_.back()->address();
}

}  // namespace gradwire::testing
