#ifndef GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
#define GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/options/option_parser.h"
#include "worker/options/model_flags.h"

namespace gradwire {

// The results of a finished run: means over its ranks.
struct MeasuredRun {
  int workers = 0;
  std::string sync;
  std::string backend;
  std::string wire;
  std::string compress;
  std::string model;
  int64_t batch_size = 0;        // per rank and iteration
  double iteration_seconds = 0;  // median
  double exposed_seconds = 0;
  double compute_seconds = 0;      // forward, backward and optimizer
  double bytes_sent_per_step = 0;  // by one worker
  int64_t trained_parameters = 0;  // 0: unknown
};

// Reads the summary of a worker, or {"ranks": […]} of a launch. InvalidArgument names a missing
// field.
absl::StatusOr<MeasuredRun> RunFromSummary(const nlohmann::json& summary);

// The options of `gradwire plan`.
struct PlanOptions : ModelFlags {
  int workers = 4;
  int per_host = 1;
  double link_gbit = 1;
  std::string wire = "fp32";
  std::string compress = "none";
  int64_t batch_size = 64;
  std::string sync = "ddp";   // for the default of bucket_cap_mb
  double bucket_cap_mb = -1;  // below 0: the sync's default
  bool broadcast_buffers = true;
  double compute_seconds = 0;  // 0: unknown, or from the summary
  int64_t samples = 0;         // 0: of the data set
  std::string dataset;         // empty: the plan has no epochs
  std::string data_dir;
  std::string summary;  // of a finished run; empty: none
  ReportFiles files;
};

// Errors as OptionParser::Parse.
absl::StatusOr<Parsed<PlanOptions>> ParsePlanOptions(const std::vector<std::string>& args,
                                                     const Environment& environment);

// Takes options that were not given from a run to be shown beside the plan. InvalidArgument if a
// given option differs from that run's.
absl::Status AdoptRun(const MeasuredRun& run, Parsed<PlanOptions>* parsed);

// The arguments of gradwire-layout.
std::vector<std::string> LayoutArguments(const PlanOptions& options);

// Returns the request to the script, with the fields that cli/plan/plan.py documents. `options` is
// valid; null fields: unknown.
nlohmann::ordered_json PlanRequest(const PlanOptions& options,
                                   const absl::optional<MeasuredRun>& measured,
                                   const std::string& command);

// `gradwire plan`: reads the options and the summary, then replaces this process with the script
// that plans. Returns only if it cannot or need not: with the exit code of the program.
int PlanCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_PLAN_PLAN_COMMAND_H_
