#ifndef GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_
#define GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// The size of a run, equal on all workers.
struct TrainingSize {
  int world_size = 1;
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 1;
};

using LearningRate = std::function<double(Step)>;

// Returns the learning rate of each step, a pure function of these arguments and the step:
//
//   target   --lr; with --scale-lr times batch-size × accumulate × W / --base-batch
//   warm-up  steps 0 … w - 1 of --warmup-epochs. With --scale-lr linear from --lr to the target,
//            as in Goyal et al. 2017: lr + (target - lr) · step / w. Otherwise linear from
//            lr / w, because lr is the target: lr · (step + 1) / w
//   then     target times the factor of --lr-schedule (schedules.inc)
//
// The rate reaches the target at the end of the warm-up. Schedule step counts epochs from the start
// of the run; cosine begins after the warm-up.
//
// `options` must be checked. NotFound lists the names if the schedule does not exist.
absl::StatusOr<LearningRate> MakeLearningRate(const WorkerOptions& options,
                                              const TrainingSize& run);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_
