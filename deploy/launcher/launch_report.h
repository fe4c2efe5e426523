#ifndef GRADWIRE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_
#define GRADWIRE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire {

// The summaries of all ranks, in rank order, as `--summary` writes them:
// {"ranks": [...]}. FailedPrecondition names a file that is missing or no JSON.
absl::StatusOr<nlohmann::ordered_json> CollectSummaries(const std::vector<std::string>& files);

// A table for people, a line for each rank: median and phases of an iteration in
// milliseconds, first and last loss, and accuracy if it was measured. What is
// missing or null is shown as "-". Ends with a newline.
std::string SummaryTable(const nlohmann::ordered_json& summaries);

}  // namespace gradwire

#endif  // GRADWIRE_DEPLOY_LAUNCHER_LAUNCH_REPORT_H_
