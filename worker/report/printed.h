#ifndef GRADWIRE_WORKER_REPORT_PRINTED_H_
#define GRADWIRE_WORKER_REPORT_PRINTED_H_

#include <cstdint>

namespace gradwire {

// Whether --print-every `print_every` reports `iteration` (from 1, over the
// whole run): the first, then each `print_every`th. 0 reports none.
inline bool IsPrinted(uint64_t iteration, int64_t print_every) {
  if (print_every <= 0) return false;
  return iteration == 1 || iteration % static_cast<uint64_t>(print_every) == 0;
}

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_PRINTED_H_
