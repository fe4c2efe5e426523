#ifndef GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_
#define GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_

#include <cstdint>
#include <future>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "bench/rank/pattern.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// What one rank is to do; the same on all ranks.
struct LoopOptions {
  Operation operation = OperationCalled("all-reduce");
  uint64_t bytes = 4;   // of the bucket, a positive multiple of 4; see SizeFor
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

// What one rank puts in and gets, once, and what it sent for that.
struct Shown {
  std::vector<float> input;
  std::vector<absl::optional<float>> output;  // none where nothing comes out
  TransferTotals moved;
};

// The buckets of layout 0: that of the operation, and, but for an all-reduce, a gate: one float32
// that all ranks average behind each iteration, because no rank may be far ahead of another.
std::vector<BucketSpec> LoopBuckets(const LoopOptions& options);

// Does one operation over and over and checks what comes back. All ranks call
// Run with equal options; layout 0 is LoopBuckets.
//
//   2 to connect, `warmup`     filled anew and checked in full
//   `iterations`               back to back; samples filled anew and checked
//   1                          filled anew and checked in full
//
// Ranks agree on shorter loops by averaging what each proposes, over the back
// end under test, between these parts. The gate is not in the times.
class CollectiveLoop {
 public:
  // `exchange`, whose worker carries `rank` of `world_size` alone, and `pattern` outlive the loop.
  CollectiveLoop(Exchange* exchange, Rank rank, int world_size, const Pattern* pattern,
                 const LoopOptions& options);
  // Waits for a gate that an error left under way: it is in the exchange's hands.
  ~CollectiveLoop();
  CollectiveLoop(const CollectiveLoop&) = delete;
  CollectiveLoop& operator=(const CollectiveLoop&) = delete;

  // Once, this or Show. Errors are those of Exchange::Done, with the iteration.
  absl::StatusOr<LoopResult> Run();
  // One iteration, of which element i of rank r is 10r + i.
  absl::StatusOr<Shown> Show();

 private:
  BucketKey KeyOf(int bucket) const { return {LayoutId(0), step_, Bucket(bucket)}; }
  // The operation alone; the step goes on.
  absl::Status Operate();
  // Ends an iteration. `proposal` is averaged; see gate_.
  absl::Status PassGate(float proposal);
  absl::Status Wait(std::future<absl::Status> ended) const;
  // Operate, and how long it took; then the gate.
  absl::StatusOr<double> TimedIteration(float proposal = 0);
  absl::Status CheckedIterations(int count);
  absl::Status Measure(int count);
  // How many of `asked` iterations of `seconds` each all ranks do within `limit`.
  absl::StatusOr<int> Agree(int asked, double seconds, absl::Duration limit);

  Exchange* const exchange_;
  const Rank rank_;
  const Pattern& pattern_;
  const LoopOptions options_;
  const std::vector<BucketSpec> buckets_;
  const std::vector<Expected> expected_;
  Step step_;
  std::future<absl::Status> gate_ended_;
  float proposal_ = 0;       // to the gate
  float gate_ = 0;           // the mean of all ranks' proposals
  double last_seconds_ = 0;  // of the last checked iteration
  std::vector<float> terms_;
  std::vector<float> mean_;
  LoopResult result_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_
