#ifndef GRADWIRE_WORKER_REPORT_PROGRESS_H_
#define GRADWIRE_WORKER_REPORT_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/environment.h"
#include "common/telemetry/step_record.h"
#include "worker/report/progress_format.h"

namespace gradwire {

enum class ProgressMode {
  kBar,    // one line that is redrawn; lines as in kPlain above it
  kPlain,  // a line every --print-every iterations
  kNone,   // silent
};

// GRADWIRE_PROGRESS=bar|plain|none decides. Otherwise: a bar on a terminal (`is_terminal` of the
// output stream) unless TERM is "dumb", else plain lines. InvalidArgument: another value of
// GRADWIRE_PROGRESS.
absl::StatusOr<ProgressMode> DetectMode(const Environment& environment, bool is_terminal);

// Returns false if NO_COLOR is set (https://no-color.org). Only bars have color.
bool UseColour(const Environment& environment);

// Returns COLUMNS if it is a number above 0, else the width of the terminal at `fd`, else 80.
int TerminalWidth(const Environment& environment, int fd);

struct ProgressOptions {
  int64_t total_steps = 0;      // of the whole run
  int64_t steps_per_epoch = 0;  // of a complete epoch
  int64_t epochs = 1;
  int64_t print_every = 20;  // 0: no lines
  int world_size = 1;
  ProgressMode mode = ProgressMode::kPlain;
  bool colour = false;  // of the bar
  int width = 80;       // columns, of the bar
};

// Prints the progress of training: loss, speed, share of time in communication, time left, and once
// the average iteration time over iterations 2 to 40, or, after a checkpoint of K, K + 2 to K + 40.
// Not thread-safe.
class ProgressReporter {
 public:
  // `out` must outlive this object.
  ProgressReporter(const ProgressOptions& options, std::ostream& out)
      : options_(options), out_(out) {}

  // Call it after each step, always for the same rank.
  void OnStep(const StepRecord& record);

  // Call it after each epoch of that rank.
  void OnEpoch(const EpochRow& row);

  // Ends the bar's line, if there is one, before other output.
  void Pause();

  // Ends the bar's line; after less than 40 iterations, prints the average over those. Call it
  // once, however training ended.
  void Finish();

 private:
  struct Sample {
    int64_t samples = 0;
    absl::Duration iteration;
    absl::Duration communication;
  };

  void Remember(const StepRecord& record);
  Progress Now(const StepRecord& record) const;
  void PrintAverage();
  void PrintLine(absl::string_view line);
  void DrawBar(const Progress& progress, absl::Duration iteration);

  const ProgressOptions options_;
  std::ostream& out_;
  std::deque<Sample> recent_;   // at most 20; the first iteration only until the second
  int64_t done_ = 0;            // iterations
  int64_t before_ = 0;          // iterations of the checkpoint that the run resumed
  absl::Duration since_first_;  // sum of iterations 2 to done_, at most 40
  absl::Duration since_drawn_;  // sum of iterations after the last drawing
  bool drawn_ = false;          // a bar is on the screen
  bool average_printed_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_PROGRESS_H_
