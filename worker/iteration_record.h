#ifndef GRADWIRE_WORKER_ITERATION_RECORD_H_
#define GRADWIRE_WORKER_ITERATION_RECORD_H_

#include <cstdint>

#include "common/ids.h"
#include "common/phase_times.h"

namespace gradwire {

// What is written down about one iteration of one rank.
struct IterationRecord {
  Step step;          // counted from 0 over the whole run
  int64_t epoch = 0;  // from 0
  double loss = 0;    // mean over this rank's batch
  PhaseTimes times;
  int64_t samples = 0;  // of this rank
  int64_t padded = 0;   // of them, repeats that fill up the last batches
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_ITERATION_RECORD_H_
