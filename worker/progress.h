#ifndef GRADWIRE_WORKER_PROGRESS_H_
#define GRADWIRE_WORKER_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/environment.h"
#include "worker/iteration_record.h"

namespace gradwire {

// bar:   one line that is drawn anew, ended by '\r'; plain lines go above it
// plain: lines only
// none:  nothing
enum class ProgressStyle { kBar, kPlain, kNone };

// GRADWIRE_PROGRESS (bar, plain, none) if it is set; else bar on a terminal that
// can redraw a line (TERM is not dumb), plain otherwise. NO_COLOR changes
// nothing: no colour is used. InvalidArgument for another GRADWIRE_PROGRESS.
absl::StatusOr<ProgressStyle> ChooseProgressStyle(const Environment& environment, bool is_terminal);

// Characters in a line: COLUMNS if it is a number from 20 to 1000, else 80.
int TerminalColumns(const Environment& environment);

// Where training stands after an iteration. Counts start at 1.
struct ProgressState {
  int64_t epoch = 1;
  int64_t epochs = 1;     // 0: unknown, left out
  int64_t iteration = 1;  // in the epoch
  int64_t iterations_per_epoch = 1;
  int64_t done = 1;  // iterations of the whole run
  int64_t total = 1;
  double loss = 0;
  double iteration_seconds = 0;    // recent mean
  double images_per_second = 0;    // of all ranks, recent mean
  double communication_share = 0;  // of recent wall time, 0 … 1
};

// "epoch 1/1 iteration 20/196 loss 2.3456 0.683 s/iteration 375 images/s communication 24 %"
std::string PlainLine(const ProgressState& state);
// " 10 % [=====>        ] 20/196 loss 2.3456 375 images/s communication 24 % 2:00 left",
// at most `columns` - 1 characters; what does not fit is left out from the right.
std::string BarLine(const ProgressState& state, int columns);
// "0:42", "12:03", "1:02:03"; "?" if it is infinite or not a number.
std::string DurationText(absl::Duration duration);

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::kPlain;
  int columns = 80;
  int64_t print_every = 20;  // iterations between plain lines; 0: none
  int64_t epochs = 0;        // 0: --iterations rules
  int64_t iterations_per_epoch = 1;
  int64_t total = 1;  // iterations of the run
  int64_t world_size = 1;
};

// Tells people how training goes. Plain lines each print-every iterations; the
// average time of iterations 2 to 41 once the 41st is done (or of all but the
// first, at the end of a shorter run); the bar at most ten times a second. Not
// thread-safe.
class ProgressReporter {
 public:
  // Gets finished text: a line with its '\n', or a bar with its '\r'.
  using Sink = std::function<void(absl::string_view text)>;
  using Clock = std::function<absl::Time()>;

  ProgressReporter(const ProgressOptions& options, Sink sink, Clock clock = absl::Now);

  void OnIteration(const IterationRecord& record);
  // After the last iteration, and before anything else is printed: takes the bar away.
  void Finish();

 private:
  void Measure(const IterationRecord& record);
  ProgressState State(const IterationRecord& record) const;
  void PrintAverage();
  void PrintLine(absl::string_view line);
  void DrawBar(const ProgressState& state);

  const ProgressOptions options_;
  const Sink sink_;
  const Clock clock_;
  int64_t done_ = 0;
  double seconds_sum_ = 0;  // of iterations 2 to 41
  bool average_printed_ = false;
  // Recent means, weighted towards the last iterations.
  double seconds_ = 0;
  double communication_seconds_ = 0;
  double samples_ = 0;
  absl::Time last_drawn_ = absl::InfinitePast();
  bool bar_is_drawn_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_PROGRESS_H_
