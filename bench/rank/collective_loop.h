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

// The task of each rank; equal on all ranks.
struct LoopOptions {
  Operation operation = OperationCalled("all-reduce");
  // Whether input and output lie in memory of the exchange, which then copies neither. Else they
  // are this process's own.
  bool shared_tensors = false;
  uint64_t bytes = 4;   // size of the bucket, a positive multiple of 4; see SizeFor
  int warmup = 20;      // iterations before the measured ones
  int iterations = 50;  // measured iterations
  // Time limit of the measured iterations; a quarter of it limits the warm-up. Fewer iterations run
  // if they would take longer. InfiniteDuration: no limit.
  absl::Duration limit = absl::InfiniteDuration();
  absl::Duration step_timeout = absl::Seconds(120);
};

// The results of one rank.
struct LoopResult {
  std::vector<double> seconds;  // of each measured iteration, in order
  // CPU time of this process, during the measured iterations only.
  double cpu_seconds = 0;
  TransferTotals moved;
  uint64_t iterations_in_all = 0;  // including warm-up and checks
  uint64_t checked = 0;            // values compared
  uint64_t wrong = 0;              // wrong values among them
};

// Input, output and traffic of one rank in one iteration.
struct Shown {
  std::vector<float> input;
  std::vector<absl::optional<float>> output;  // nullopt: not an output of this rank
  TransferTotals moved;
};

// The buckets of layout 0: the operation's bucket and, except for all-reduce, a gate. The gate is
// one float32 that all ranks average after each iteration, so that no rank gets far ahead.
std::vector<BucketSpec> LoopBuckets(const LoopOptions& options);

// Repeats one operation and checks the results. All ranks call Run with equal options; layout 0 is
// LoopBuckets.
//
//   iterations                   input                  check
//   2 (to connect) and `warmup`  refilled               all elements
//   `iterations`, measured       samples are refilled   samples
//   1                            refilled               all elements
//
// Between these parts, the ranks agree on the number of iterations: they average their proposals
// over the back end under test. The times do not include the gate.
class CollectiveLoop {
 public:
  // `exchange` and `pattern` outlive the loop. The worker of `exchange` carries only `rank`.
  CollectiveLoop(Exchange* exchange, Rank rank, int world_size, const Pattern* pattern,
                 const LoopOptions& options);
  // Waits for a gate that is still under way after an error: the exchange writes to it.
  ~CollectiveLoop();
  CollectiveLoop(const CollectiveLoop&) = delete;
  CollectiveLoop& operator=(const CollectiveLoop&) = delete;

  // Call either Run or Show, once. Errors of Exchange::Done, with the iteration; FailedPrecondition
  // if the tensors are to be shared and the exchange has no memory for them.
  absl::StatusOr<LoopResult> Run();
  // Runs one iteration; element i of rank r is 10r + i.
  absl::StatusOr<Shown> Show();

 private:
  BucketKey KeyOf(int bucket) const { return {LayoutId(0), step_, Bucket(bucket)}; }
  // Finds memory for the tensors.
  absl::Status MakeTensors();
  // Returns the output if it can be filled with NaN before an iteration; else empty.
  absl::Span<float> Erasable() const {
    return options_.shared_tensors ? absl::Span<float>() : mean_;
  }
  // Runs the operation only; does not end the step.
  absl::Status Operate();
  // Ends the iteration: averages `proposal` of all ranks into gate_.
  absl::Status PassGate(float proposal);
  absl::Status Wait(std::future<absl::Status> ended) const;
  // Returns the seconds of Operate; then passes the gate.
  absl::StatusOr<double> TimedIteration(float proposal = 0);
  absl::Status CheckedIterations(int count);
  absl::Status Measure(int count);
  // How many of the `asked` iterations, each taking `seconds`, all ranks can run within `limit`.
  absl::StatusOr<int> Agree(int asked, double seconds, absl::Duration limit);

  Exchange* const exchange_;
  const Rank rank_;
  const Pattern& pattern_;
  const LoopOptions options_;
  const std::vector<BucketSpec> buckets_;
  const std::vector<Expected> expected_;
  Step step_;
  std::future<absl::Status> gate_ended_;
  float proposal_ = 0;       // this rank's value in the gate
  float gate_ = 0;           // mean of all proposals
  double last_seconds_ = 0;  // of the last checked iteration
  std::vector<float> own_;   // both tensors, unless they are shared
  Exchange::Memory shared_terms_;
  Exchange::Memory shared_mean_;
  absl::Span<float> terms_;
  absl::Span<float> mean_;
  LoopResult result_;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_COLLECTIVE_LOOP_H_
