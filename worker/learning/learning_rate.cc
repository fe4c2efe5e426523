#include "worker/learning/learning_rate.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// An iteration after the warm-up.
struct Iteration {
  int64_t epoch;
  int64_t step;   // from the end of the warm-up
  int64_t steps;  // from there to the end of the run
};

double Constant(const WorkerOptions&, const Iteration&) { return 1; }

double StepDown(const WorkerOptions& options, const Iteration& iteration) {
  return std::pow(options.lr_gamma, iteration.epoch / options.lr_step_epochs);
}

double Cosine(const WorkerOptions&, const Iteration& iteration) {
  if (iteration.steps == 0) return 0;  // the warm-up is the whole run, which has ended
  const double share = static_cast<double>(iteration.step) / static_cast<double>(iteration.steps);
  return (1 + std::cos(M_PI * share)) / 2;
}

double Target(const WorkerOptions& options, const TrainingSize& run) {
  if (!options.scale_lr) return options.lr;
  const double total_batch = static_cast<double>(options.batch_size * options.accumulate) *
                             static_cast<double>(run.world_size);
  return options.lr * (total_batch / static_cast<double>(options.base_batch));
}

using Factor = double (*)(const WorkerOptions&, const Iteration&);

absl::StatusOr<Factor> FindFactor(const std::string& schedule) {
#define GRADWIRE_SCHEDULE(name, factor, ...) \
  if (schedule == name) return &factor;
#include "worker/options/schedules.inc"
#undef GRADWIRE_SCHEDULE
  std::string names;
#define GRADWIRE_SCHEDULE(name, ...) absl::StrAppend(&names, " ", name);
#include "worker/options/schedules.inc"
#undef GRADWIRE_SCHEDULE
  return absl::NotFoundError(
      absl::StrCat("schedule '", schedule, "' does not exist; expected one of:", names));
}

double WarmUp(const WorkerOptions& options, double target, int64_t step, int64_t steps) {
  const auto share = [&](int64_t part) {
    return static_cast<double>(part) / static_cast<double>(steps);
  };
  return options.scale_lr ? options.lr + (target - options.lr) * share(step)
                          : options.lr * share(step + 1);
}

}  // namespace

absl::StatusOr<LearningRate> MakeLearningRate(const WorkerOptions& options,
                                              const TrainingSize& run) {
  const absl::StatusOr<Factor> found = FindFactor(options.lr_schedule);
  if (!found.ok()) return found.status();
  const double target = Target(options, run);
  const int64_t warm_up = options.warmup_epochs * run.steps_per_epoch;
  return LearningRate([=, factor = *found](Step at) {
    const auto step = static_cast<int64_t>(at.value());
    if (step < warm_up) return WarmUp(options, target, step, warm_up);
    return target *
           factor(options, {step / run.steps_per_epoch, step - warm_up, run.total_steps - warm_up});
  });
}

}  // namespace gradwire
