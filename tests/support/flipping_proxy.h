#ifndef GRADWIRE_TESTS_SUPPORT_FLIPPING_PROXY_H_
#define GRADWIRE_TESTS_SUPPORT_FLIPPING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/address.h"

namespace gradwire::testing {

// Counts the bytes that all connections of a network carry, and flips a bit of one of them.
class BitFlip {
 public:
  // None.
  BitFlip() = default;
  // Bit `bit` of the byte that comes as number `byte`, from 0.
  BitFlip(uint64_t byte, int bit) : byte_(byte), bit_(bit) {}

  // To be called with all bytes before they are passed on. Any thread.
  void Pass(uint8_t* bytes, size_t size);

  uint64_t passed() const { return passed_; }
  bool is_done() const { return passed_ > byte_; }

 private:
  const uint64_t byte_ = UINT64_MAX;
  const int bit_ = 0;
  std::atomic<uint64_t> passed_{0};
};

// Stands in front of a server on loopback and passes on what comes, by way of a BitFlip. A
// connection of which one end goes ends as a whole.
class FlippingProxy {
 public:
  // To `target`, "host:port"; `flip` outlives the proxy.
  FlippingProxy(const std::string& target, BitFlip* flip);
  // Ends all connections.
  ~FlippingProxy();
  FlippingProxy(const FlippingProxy&) = delete;
  FlippingProxy& operator=(const FlippingProxy&) = delete;

  // Where it listens, "host:port".
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    UniqueFd client;
    UniqueFd server;
    std::thread up;
    std::thread down;
  };

  void AcceptAll();
  void PassOn(const UniqueFd& from, const UniqueFd& to, const Connection& connection);

  const std::string target_;
  BitFlip* const flip_;
  Listening listening_;
  std::string address_;
  std::atomic<bool> ended_{false};
  std::list<Connection> connections_;  // of the thread that accepts, until it has ended
  std::thread thread_;
};

// Proxies in front of as many servers as there are.
class FlippedNetwork {
 public:
  explicit FlippedNetwork(BitFlip* flip) : flip_(flip) {}

  // Where `address` is reached by way of a proxy.
  std::string Through(const std::string& address);

 private:
  BitFlip* const flip_;
  std::vector<std::unique_ptr<FlippingProxy>> proxies_;
};

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_FLIPPING_PROXY_H_
