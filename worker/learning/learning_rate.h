#ifndef GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_
#define GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// What a run comes to, as all workers have it.
struct TrainingSize {
  int world_size = 1;
  int64_t steps_per_epoch = 1;
  int64_t total_steps = 1;
};

using LearningRate = std::function<double(Step)>;

// The learning rate of each step, a pure function of these arguments and the step:
//
//   target   --lr; with --scale-lr times batch-size × accumulate × W / --base-batch
//   warm-up  steps 0 … w - 1 of --warmup-epochs. With --scale-lr from --lr to the target in
//            equal parts, as Goyal et al. 2017: lr + (target - lr) · step / w. Without,
//            where there is nothing between the two, from lr / w: lr · (step + 1) / w
//   then     target times the factor of --lr-schedule (schedules.inc)
//
// Where warm-up ends, the target is reached. A step schedule counts epochs from the beginning of
// the run; a cosine begins behind the warm-up.
//
// `options` are checked. NotFound: a schedule that does not exist; lists the names.
absl::StatusOr<LearningRate> MakeLearningRate(const WorkerOptions& options,
                                              const TrainingSize& run);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_LEARNING_LEARNING_RATE_H_
