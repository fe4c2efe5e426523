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

// One step of one rank. The trainer measures it; log, summary, progress, metrics, status and the
// live page all show it.
struct StepRecord {
  Step step;
  int64_t epoch = 0;  // counted from 0
  Rank rank;
  // Mean over the rank's batch, before the update; NaN if the program does not report it.
  double loss = 0;
  bool loss_told = true;
  int64_t samples = 0;  // of the rank
  int64_t padded = 0;   // of the samples, repeats
  // Digest of the samples' indices, for the ledger, which alone has it; 0 if the program does not
  // know them.
  uint64_t samples_digest = 0;
  int64_t correct = 0;  // samples that the model classified correctly before the update
  double lr = 0;        // learning rate of the update; 0 if the program does not report it
  // For the worker that carries the rank, all its ranks together:
  absl::Duration iteration;  // from the end of the previous iteration to the end of this one
  PhaseTimes phases;
  // Payload in this iteration, divided evenly among the ranks of a process.
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  absl::Time time;  // end of the iteration
  // Largest resident set of the worker's process so far; 0 if the system does not say.
  uint64_t peak_memory_bytes = 0;
  // For a served model, when the rank received it: the number of steps by which the fastest rank
  // was ahead of this one, and of the slowest.
  struct Staleness {
    uint64_t lag = 0;
    uint64_t spread = 0;
  };
  absl::optional<Staleness> staleness;
  bool skipped = false;  // the update was skipped because the mean gradient was not finite
  // For compressed gradients, of all the worker's ranks together.
  struct Compressed {
    double ratio = 1;  // bytes in float32 / bytes on the wire, in both directions
    // L2 norm of the accumulated compression error / L2 norm of the gradients; of the last step in
    // which it was measured, see IsResidualMeasured. None before the first measurement.
    absl::optional<double> residual;
  };
  absl::optional<Compressed> compressed;
};

// Every figure of a step, in the order of the step log. To add one, add a member above, a row here
// and, for the coordinator, a field of StepDone. StepFigure documents the rows.
inline constexpr StepFigure kStepFigures[] = {
    StepFigure::Of<&StepRecord::step>("step"),
    StepFigure::Of<&StepRecord::epoch>("epoch"),
    StepFigure::Of<&StepRecord::rank>("rank"),
    StepFigure::OfTold<&StepRecord::loss_told, &StepRecord::loss>("loss").MeanOfRanks().Gauge(
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
        "Samples that the model classified correctly before the update."),
    StepFigure::Of<&StepRecord::iteration>("iteration_seconds"),
    StepFigure::Of<&StepRecord::phases>("phase_seconds"),
    StepFigure::Of<&StepRecord::bytes_sent>("bytes_sent").SumOfRanks().OnPage(),
    StepFigure::Of<&StepRecord::bytes_received>("bytes_received").SumOfRanks().OnPage(),
    StepFigure::Of<&StepRecord::time>("time"),
    StepFigure::Of<&StepRecord::peak_memory_bytes>("peak_memory_bytes")
        .OnPage()
        .LastAt("/peak_memory_bytes")
        .Gauge("gradwire_peak_memory_bytes",
               "Largest resident set of this worker's process so far.")
        .CoordinatorOfRank(),
    StepFigure::Of<&StepRecord::staleness, &StepRecord::Staleness::lag>("lag")
        .OnPage()
        .MeanAndMaxAt("/staleness/lag")
        .Gauge("gradwire_lag_steps",
               "Steps by which the fastest rank was ahead of this one; only for a served model.")
        .CoordinatorOfRank(),
    StepFigure::Of<&StepRecord::staleness, &StepRecord::Staleness::spread>("spread")
        .OnPage()
        .MeanAndMaxAt("/staleness/spread")
        .Gauge("gradwire_clock_spread_steps",
               "Steps by which the fastest rank was ahead of the slowest; only for a served model.")
        .CoordinatorOfRun(),
    StepFigure::Of<&StepRecord::skipped>("skipped")
        .SummedAt("/failures/skipped_steps")
        .Counter("gradwire_skipped_steps_total",
                 "Steps whose update was skipped because the mean gradient was not finite."),
    StepFigure::Of<&StepRecord::compressed, &StepRecord::Compressed::ratio>("compression_ratio")
        .OnPage()
        .Gauge("gradwire_compression_ratio",
               "Bytes of gradients in float32 divided by bytes on the wire, in the last step.")
        .CoordinatorOfRank(),
    StepFigure::Of<&StepRecord::compressed, &StepRecord::Compressed::residual>("residual_norm")
        .OnPage()
        .LastAt("/residual_norm")
        .Gauge("gradwire_residual_norm",
               "L2 norm of the compression error so far divided by the norm of the gradients.")
        .CoordinatorOfRank(),
};

// Returns the step of a whole worker: the first rank's record, with the figures that add up over
// its ranks. `records` must not be empty.
StepRecord RecordOfWorker(absl::Span<const StepRecord> records);

// Returns the part of the iteration that the rank did not spend waiting for others.
absl::Duration OwnWork(const StepRecord& record);

// Converts the record for the wire. total_steps, which belongs to the run, stays 0.
v1::StepDone ToStepDone(const StepRecord& record);
// A phase that `done` lacks took no time; an unknown phase is ignored.
StepRecord FromStepDone(const v1::StepDone& done);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_STEP_RECORD_H_
