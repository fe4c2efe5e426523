#ifndef GRADWIRE_CLI_PLAN_MEASURED_RUN_H_
#define GRADWIRE_CLI_PLAN_MEASURED_RUN_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace gradwire {

// What a finished run measured, means over its ranks.
struct MeasuredRun {
  int workers = 0;
  std::string sync;
  std::string backend;
  std::string wire;
  std::string compress;
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

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PLAN_MEASURED_RUN_H_
