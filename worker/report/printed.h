#ifndef GRADWIRE_WORKER_REPORT_PRINTED_H_
#define GRADWIRE_WORKER_REPORT_PRINTED_H_

#include <cstdint>

namespace gradwire {

// Whether --print-every `print_every` reports `iteration` (from 0, over the
// whole run): 0, N, 2 N, … 0 reports none.
inline bool IsPrinted(uint64_t iteration, int64_t print_every) {
  return print_every > 0 && iteration % static_cast<uint64_t>(print_every) == 0;
}

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_PRINTED_H_
