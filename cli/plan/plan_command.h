#ifndef GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
#define GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/model_flags.h"

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

// What `gradwire plan` was told.
struct PlanOptions : ModelFlags {
  int workers = 4;
  double link_gbit = 1;
  std::string wire = "fp32";
  std::string compress = "none";
  int64_t batch_size = 64;
  std::string sync = "ddp";   // for the default of bucket_cap_mb
  double bucket_cap_mb = -1;  // below 0: as suits the sync
  bool broadcast_buffers = true;
  double compute_seconds = 0;  // 0: not known, or the summary's
  int64_t samples = 0;         // 0: the data set's
  std::string dataset;         // empty: nothing is said of epochs
  std::string data_dir;
  std::string summary;  // of a finished run; empty: none
  ReportFiles files;
};

// Errors as OptionParser::Parse.
absl::StatusOr<Parsed<PlanOptions>> ParsePlanOptions(const std::vector<std::string>& args,
                                                     const Environment& environment);

// Takes what was not given from a run that is to stand beside the plan.
// InvalidArgument if what was given is not what that run was.
absl::Status AdoptRun(const MeasuredRun& run, Parsed<PlanOptions>* parsed);

// Arguments of gradwire-layout.
std::vector<std::string> LayoutArguments(const PlanOptions& options);

// `gradwire plan`: reads the options and the summary, then becomes the script that plans. Returns,
// with the exit code of the program, only if there is nothing to plan.
int PlanCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
