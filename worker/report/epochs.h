#ifndef GRADWIRE_WORKER_REPORT_EPOCHS_H_
#define GRADWIRE_WORKER_REPORT_EPOCHS_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/types/optional.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// Not measured: NaN, which is null in JSON.
inline constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

// Quality of a model on some samples.
struct Quality {
  double loss = kUnmeasured;      // mean over the samples
  double accuracy = kUnmeasured;  // share of correct samples, 0 to 1
};

// One rank's epoch, or the part of it that the run has: a row of the summary and of the step log.
struct EpochRow {
  int64_t epoch = 0;  // from 0
  int64_t iterations = 0;
  double seconds = 0;                  // sum over its iterations
  double seconds_without_loading = 0;  // without waiting for batches
  Quality train;                       // on the rank's samples, each before its own update
  double lr = 0;                       // in the last iteration
  absl::optional<Quality> test;        // for the model at its end, if it was evaluated
};

// Adds up the steps of one rank, epoch by epoch. Not thread-safe.
class EpochCollector {
 public:
  // Adds the next step. Returns the row of the previous epoch if this is the first of another one.
  absl::optional<EpochRow> Add(const StepRecord& record);
  // Sets an evaluation after the last step, or before the first one.
  void SetTest(const Quality& test);
  // After the last step: returns the row that is still open, if there is one.
  absl::optional<EpochRow> Finish();

  // Returns all rows, in order, including an open one.
  std::vector<EpochRow> rows() const;
  // Returns the evaluation after the last step, even if no step is known: in a run that resumes
  // when all steps are done, and of a rank that another worker took over then.
  absl::optional<Quality> test() const { return test_; }

 private:
  std::vector<EpochRow> closed_;
  absl::optional<Quality> test_;  // after the last step
  // The current epoch, and sums over its samples.
  absl::optional<EpochRow> open_;
  double loss_ = 0;
  int64_t correct_ = 0;
  int64_t samples_ = 0;
};

// Returns "train", "test": {"loss", "accuracy"}; values that are not finite become null.
nlohmann::ordered_json QualityJson(const Quality& quality);
// Returns {"epoch", "iterations", "seconds", "seconds_without_loading", "loss", "accuracy", "lr"}
// and, if it was evaluated, "test".
nlohmann::ordered_json EpochJson(const EpochRow& row);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_EPOCHS_H_
