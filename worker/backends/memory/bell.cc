#include "worker/backends/memory/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/backends/memory/memory_orders.h"

namespace gradwire {

void Bell::Ring() {
  rings_.fetch_add(1, kBellOrder);
  if (sleeping_.load(kBellOrder) == 0) return;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rings_), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Bell::Sleep(uint32_t seen, absl::Duration timeout) {
  sleeping_.store(1, kBellOrder);
  if (rings_.load(kBellOrder) == seen) {
    const timespec longest = absl::ToTimespec(timeout);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&rings_), FUTEX_WAIT, seen, &longest, nullptr,
            0);
  }
  sleeping_.store(0);
}

}  // namespace gradwire
