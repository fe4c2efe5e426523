#ifndef GRADWIRE_WORKER_REPORT_PROGRESS_FORMAT_H_
#define GRADWIRE_WORKER_REPORT_PROGRESS_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/report/epochs.h"

namespace gradwire {

// Whether --print-every `print_every` prints `iteration` (from 0, over the whole run): 0, N, 2 N, …
// 0 prints none.
inline bool IsPrinted(uint64_t iteration, int64_t print_every) {
  return print_every > 0 && iteration % static_cast<uint64_t>(print_every) == 0;
}

// The state of a run. Counts start at 1 unless stated; ASCII only, so that bytes are columns.
struct Progress {
  int64_t epoch = 1;
  int64_t epochs = 1;
  int64_t iteration_in_epoch = 0;  // from 0
  int64_t iterations_in_epoch = 1;
  int64_t iteration = 1;  // over the whole run
  int64_t iterations = 1;
  double loss = 0;
  // Over the last iterations:
  double seconds_per_iteration = 0;
  double images_per_second = 0;    // of all ranks; 0 if unknown
  double communication_share = 0;  // of the time, 0 to 1
  absl::Duration left;             // until the last iteration
};

// "42 s", "1 min 30 s", "2 h 5 min"; rounded to the displayed units.
std::string FormatLeft(absl::Duration left);

// "epoch 1/1 iteration 20/196 loss 2.3456  0.512 s/iteration  500 images/s communication 34 %  left
// 1 min 30 s", in one line without a newline.
std::string FormatPlain(const Progress& progress);

// The same in short after a bar, without a newline. Shorter than `width` columns, so that no
// terminal wraps it, and padded with spaces. A narrow terminal gets no bar, a very narrow one
// shortened text. `colour`: the bar is green.
std::string FormatBar(const Progress& progress, int width, bool colour);

// "epoch 1/5: loss 2.3456  accuracy 12.34 %  lr 0.1  12.3 s, 11.8 s without loading"; if the epoch
// was evaluated, also "  test loss 2.3401  accuracy 13.57 %".
std::string FormatEpoch(const EpochRow& row, int64_t epochs);

// "average iteration time over iterations 2 to 40: 0.512 s", as the course asks. Counts from 1.
std::string FormatAverage(int64_t first_iteration, int64_t last_iteration, absl::Duration mean);

// Returns `line` padded to `width` - 1 columns, so that it covers a bar.
std::string Padded(absl::string_view line, int width);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_PROGRESS_FORMAT_H_
