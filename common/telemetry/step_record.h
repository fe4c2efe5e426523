#ifndef GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_
#define GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_

#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "common/telemetry/step_figure.h"
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

// Every figure of a step, in the order of the step log: a new one is a member above and a row here,
// and, for the coordinator, a field of StepDone. See StepFigure for what a row can say.
inline constexpr StepFigure kStepFigures[] = {
    StepFigure::Of<&StepRecord::step>("step"),
    StepFigure::Of<&StepRecord::epoch>("epoch"),
    StepFigure::Of<&StepRecord::rank>("rank"),
    StepFigure::Of<&StepRecord::loss>("loss").MeanOfRanks().Gauge(
        "gradwire_loss", "Mean loss over this worker's last batch."),
    StepFigure::Of<&StepRecord::lr>("lr"),
    StepFigure::Of<&StepRecord::samples>("samples")
        .SumOfRanks()
        .OnPage()
        .SummedAt("/samples/seen")
        .Counter("gradwire_samples_total", "Samples that this worker trained on."),
    StepFigure::Of<&StepRecord::padded>("padded").NotLogged().SumOfRanks().SummedAt(
        "/samples/padded"),
    StepFigure::Of<&StepRecord::correct>("correct").NotLogged().SumOfRanks().Counter(
        "gradwire_correct_samples_total",
        "Of the samples, those that the model got right before the update."),
    StepFigure::Of<&StepRecord::iteration>("iteration_seconds"),
    StepFigure::Of<&StepRecord::phases>("phase_seconds"),
    StepFigure::Of<&StepRecord::bytes_sent>("bytes_sent").SumOfRanks().OnPage(),
    StepFigure::Of<&StepRecord::bytes_received>("bytes_received").SumOfRanks().OnPage(),
    StepFigure::Of<&StepRecord::time>("time"),
    StepFigure::Of<&StepRecord::staleness, &StepRecord::Staleness::lag>("lag")
        .OnPage()
        .MeanAndMaxAt("/staleness/lag")
        .Gauge("gradwire_lag_steps",
               "Steps that the fastest rank was ahead of this one; of a model that is served.")
        .CoordinatorOfRank(),
    StepFigure::Of<&StepRecord::staleness, &StepRecord::Staleness::spread>("spread")
        .OnPage()
        .MeanAndMaxAt("/staleness/spread")
        .Gauge("gradwire_clock_spread_steps",
               "Steps that the fastest rank was ahead of the slowest; of a model that is served.")
        .CoordinatorOfRun(),
    StepFigure::Of<&StepRecord::skipped>("skipped")
        .SummedAt("/failures/skipped_steps")
        .Counter("gradwire_skipped_steps_total",
                 "Steps whose update was left out, as the mean gradient was not finite."),
    StepFigure::Of<&StepRecord::compressed, &StepRecord::Compressed::ratio>("compression_ratio")
        .OnPage()
        .Gauge("gradwire_compression_ratio",
               "Bytes of gradients in float32 over those that travelled, in the last step.")
        .CoordinatorOfRank(),
    StepFigure::Of<&StepRecord::compressed, &StepRecord::Compressed::residual>("residual_norm")
        .OnPage()
        .LastAt("/residual_norm")
        .Gauge("gradwire_residual_norm",
               "L2 norm of what compression has left out so far over that of the gradients.")
        .CoordinatorOfRank(),
};

// The step of a worker as a whole: the first rank's record, with the figures that add up over its
// ranks. `records` is not empty.
StepRecord RecordOfWorker(absl::Span<const StepRecord> records);

// The part of the iteration that the rank did not spend waiting for others.
absl::Duration OwnWork(const StepRecord& record);

// The record on the wire. total_steps, which is of the run, is left 0.
v1::StepDone ToStepDone(const StepRecord& record);
// A phase that `done` does not name took no time; one that is not ours is left out.
StepRecord FromStepDone(const v1::StepDone& done);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_
