#ifndef GRADWIRE_WORKER_BACKENDS_TRAFFIC_H_
#define GRADWIRE_WORKER_BACKENDS_TRAFFIC_H_

#include <atomic>
#include <cstdint>

namespace gradwire {

// Payload bytes that crossed the network. Thread-safe.
struct Traffic {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRAFFIC_H_
