#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_ORDERS_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_ORDERS_H_

#include <atomic>

namespace gradwire {

// The orders on which memory that processes share depends. tests/model checks that each of them is
// strong enough, and that no weaker one is.

// MemoryLayout: a worker stores `contributed` and `folded` after what they publish, and the others
// read them before it. PayloadSlots: the marks of slots, full and empty, likewise. Copies past the
// caches are not ordered by a release; StreamFence comes before it (common/base/stream_copy.h).
inline constexpr std::memory_order kPublishOrder = std::memory_order_release;
inline constexpr std::memory_order kSeeOrder = std::memory_order_acquire;

// Bell: all four accesses. A ringer writes `rings` and reads `sleeping`; a sleeper writes
// `sleeping` and reads `rings`. With a weaker order both may miss the other's write, and the
// sleeper sleeps although the bell was rung.
inline constexpr std::memory_order kBellOrder = std::memory_order_seq_cst;

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_ORDERS_H_
