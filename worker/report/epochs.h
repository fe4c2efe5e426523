#ifndef GRADWIRE_WORKER_REPORT_EPOCHS_H_
#define GRADWIRE_WORKER_REPORT_EPOCHS_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/types/optional.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// NaN, which JSON gives as null: nothing was measured.
inline constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

// How good a model is on some samples.
struct Quality {
  double loss = kUnmeasured;      // mean over the samples
  double accuracy = kUnmeasured;  // share of samples that it got right, 0 to 1
};

// What one rank did in an epoch, or in as much of it as the run has: a row of the summary and of
// the step log.
struct EpochRow {
  int64_t epoch = 0;  // from 0
  int64_t iterations = 0;
  double seconds = 0;                  // of its iterations together
  double seconds_without_loading = 0;  // without waiting for batches
  Quality train;                       // of the rank's samples, each before the update it was for
  double lr = 0;                       // of the last iteration
  absl::optional<Quality> test;        // of the model at its end, if that was evaluated
};

// Adds up the steps of one rank, epoch by epoch. Not thread-safe.
class EpochCollector {
 public:
  // The next step. Gives the row of the epoch before if this is the first of another one.
  absl::optional<EpochRow> Add(const StepRecord& record);
  // An evaluation after the last step.
  void SetTest(const Quality& test);
  // There are no more steps: gives the row that is still open, if there is one.
  absl::optional<EpochRow> Finish();

  // All rows, in order, also one that is open.
  std::vector<EpochRow> rows() const;

 private:
  std::vector<EpochRow> closed_;
  // The epoch that goes on, and sums over its samples.
  absl::optional<EpochRow> open_;
  double loss_ = 0;
  int64_t correct_ = 0;
  int64_t samples_ = 0;
};

// "train", "test": {"loss", "accuracy"}; what is not finite becomes null.
nlohmann::ordered_json QualityJson(const Quality& quality);
// {"epoch", "iterations", "seconds", "seconds_without_loading", "loss", "accuracy", "lr"} and,
// where it was evaluated, "test".
nlohmann::ordered_json EpochJson(const EpochRow& row);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_EPOCHS_H_
