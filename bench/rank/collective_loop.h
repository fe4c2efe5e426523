#ifndef GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_
#define GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/rank/pattern.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// What one rank is to do; the same on all ranks.
struct LoopOptions {
  uint64_t bytes = 4;   // of the bucket, a positive multiple of 4
  int warmup = 20;      // iterations before the measured ones
  int iterations = 50;  // measured ones
  // Fewer iterations if they would take longer than this; a quarter of it for
  // the warm-up. InfiniteDuration: as many as asked for.
  absl::Duration limit = absl::InfiniteDuration();
  absl::Duration step_timeout = absl::Seconds(120);
};

// What one rank measured.
struct LoopResult {
  std::vector<double> seconds;  // of each measured iteration, in their order
  // Of the measured iterations alone, of this process.
  double cpu_seconds = 0;
  TransferTotals moved;
  uint64_t iterations_in_all = 0;  // with warm-up and checks
  uint64_t checked = 0;            // values that were compared
  uint64_t wrong = 0;              // those of them that were wrong
};

// Averages one bucket over and over and checks what comes back. All ranks call
// Run with equal options; layout 0 is that one float32 bucket.
//
//   2 to connect, `warmup`     filled anew and checked in full
//   `iterations`               back to back; samples filled anew and checked
//   1                          filled anew and checked in full
//
// Ranks agree on shorter loops by averaging what each proposes, over the back
// end under test, between these parts.
class CollectiveLoop {
 public:
  // `exchange`, whose worker carries `rank` alone, and `pattern` outlive the loop.
  CollectiveLoop(Exchange* exchange, Rank rank, const Pattern* pattern, const LoopOptions& options);

  // Once. Errors are those of Exchange::Done, with the iteration.
  absl::StatusOr<LoopResult> Run();

 private:
  absl::Status Average();
  // Average, and how long it took.
  absl::StatusOr<double> TimedAverage();
  absl::Status CheckedAverages(int count);
  absl::Status Measure(int count);
  // How many of `asked` iterations of `seconds` each all ranks do within `limit`.
  absl::StatusOr<int> Agree(int asked, double seconds, absl::Duration limit);

  Exchange* const exchange_;
  const Rank rank_;
  const Pattern& pattern_;
  const LoopOptions options_;
  Step step_;
  double last_seconds_ = 0;  // of the last checked iteration
  std::vector<float> terms_;
  std::vector<float> mean_;
  LoopResult result_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_
