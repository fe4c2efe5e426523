#ifndef GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_
#define GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// What one step of one rank did. The trainer measures it; log, summary, progress,
// metrics, status and the live page all say what stands here.
struct StepRecord {
  Step step;
  int64_t epoch = 0;  // from 0
  Rank rank;
  // Mean over the rank's batch, before the update; NaN if the program does not tell it.
  double loss = 0;
  bool loss_told = true;
  int64_t samples = 0;  // of the rank
  int64_t padded = 0;   // of the samples, repeats
  int64_t correct = 0;  // of the samples, those that the model got right before the update
  double lr = 0;        // learning rate of the update; 0 if the program does not tell it
  // Of the worker that carries the rank, all its ranks together:
  absl::Duration iteration;  // from the end of the last iteration to the end of this
  PhaseTimes phases;
  // Payload in this iteration. That of a process is divided evenly among its ranks.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  absl::Time time;  // of its end
  // Of a model that is served, when the rank got it: steps that the fastest rank was ahead of this
  // one, and of the slowest.
  struct Staleness {
    uint64_t lag = 0;
    uint64_t spread = 0;
  };
  absl::optional<Staleness> staleness;
  bool skipped = false;  // the update was left out, as the mean gradient was not finite
  // Of gradients that are compressed, those of all the worker's ranks together.
  struct Compressed {
    double ratio = 1;  // bytes in float32 over those that travelled, there and back
    // L2 norm of what has been left out so far over that of the gradients; of the last step in
    // which it was measured, see IsResidualMeasured. None if there is none yet.
    absl::optional<double> residual;
  };
  absl::optional<Compressed> compressed;
};

// The part of the iteration that the rank did not spend waiting for others.
absl::Duration OwnWork(const StepRecord& record);

// The record on the wire. total_steps, which is of the run, is left 0.
v1::StepDone ToStepDone(const StepRecord& record);
// A phase that `done` does not name took no time; one that is not ours is left out.
StepRecord FromStepDone(const v1::StepDone& done);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_
