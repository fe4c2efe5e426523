#ifndef GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
#define GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/plan/measured_run.h"
#include "cli/terminal/report_files.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/model_flags.h"

namespace gradwire {

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
