#ifndef GRADWIRE_BENCH_PLAN_H_
#define GRADWIRE_BENCH_PLAN_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "bench/report.h"

namespace gradwire {

// What ranks exchange in a step, as gradwire-layout prints it.
struct PlannedLayout {
  struct Bucket {
    uint64_t bytes = 0;    // as float32
    bool averaged = true;  // false: rank 0's are copied
  };
  std::vector<Bucket> buckets;
  int64_t parameters = 0;           // elements of all of them
  absl::optional<int64_t> samples;  // of the data set, if one was named

  // Bytes of a step, of gradients (as float32) and of what is copied.
  double AveragedBytes() const;
  double CopiedBytes() const;
};
// Internal if a field is missing.
absl::StatusOr<PlannedLayout> LayoutFromJson(const nlohmann::json& json);

// What a finished run measured, means over its ranks.
struct MeasuredRun {
  int workers = 0;
  std::string sync;
  std::string backend;
  std::string wire;
  std::string model;
  int64_t batch_size = 0;
  double iteration_seconds = 0;  // median
  double exposed_seconds = 0;
  double compute_seconds = 0;      // forward, backward and optimiser
  double bytes_sent_per_step = 0;  // of a worker
};
// From a worker's summary or a launch's {"ranks": […]}. InvalidArgument names the
// field that is missing.
absl::StatusOr<MeasuredRun> RunFromSummary(const nlohmann::json& summary);

// A run that is to be.
struct PlanInput {
  std::string model;
  int workers = 1;
  double link_gbit = 1;
  std::string wire = "fp32";
  int64_t batch_size = 64;
  std::vector<std::string> backends;
  PlannedLayout layout;
  absl::optional<double> compute_seconds;  // of an iteration, alone
  absl::optional<MeasuredRun> measured;
};

// Iterations that an epoch takes: each rank has an equal share of the samples,
// filled up, in batches of which the last one may be smaller.
int64_t StepsPerEpoch(int64_t samples, int workers, int64_t batch_size);

// Buckets, bytes, and what an iteration takes at least, for each back end.
Report MakePlan(const PlanInput& input);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_PLAN_H_
