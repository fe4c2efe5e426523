#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_BELL_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_BELL_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace gradwire {

// A bell in shared memory of Writer::kAll: one thread sleeps, others of any process wake it. It
// says only that something may have changed, so a ring too many does no harm.
//
// Memory order: Ring adds to `rings_`, then reads `sleeping_`; Sleep sets `sleeping_`, then reads
// `rings_`. All four are sequentially consistent, so at least one of the two sees the other's
// write: the ringer wakes, or the sleeper does not sleep. Data written before Ring is
// visible to the thread whose Sleep or rings() sees the ring.
class Bell {
 public:
  uint32_t rings() const { return rings_.load(); }
  void Ring();
  // Returns when rings() is not `seen`, at the latest after `timeout`; may return early.
  void Sleep(uint32_t seen, absl::Duration timeout);

 private:
  std::atomic<uint32_t> rings_;
  std::atomic<uint32_t> sleeping_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_BELL_H_
