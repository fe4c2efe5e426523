#ifndef GRADWIRE_CLI_LAUNCH_LAUNCH_REPORT_H_
#define GRADWIRE_CLI_LAUNCH_LAUNCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire {

// The summaries of all ranks, in rank order, as `--summary` writes them:
// {"ranks": [...]}. FailedPrecondition names a file that is missing or no JSON.
absl::StatusOr<nlohmann::ordered_json> CollectSummaries(const std::vector<std::string>& files);

// A table for people, a line for each rank: median and phases of an iteration in
// milliseconds, the exposed part of an iteration, busbw (nccl-tests' measure: the
// bytes that a link must move for an all-reduce, over the time of communication),
// first and last loss, and accuracy if it was measured. With links of `link_gbit`
// (10^9 bits a second; 0: unknown) also the part of the communication's time that
// they need at least. What is missing or null is shown as "-". Ends with a newline.
std::string SummaryTable(const nlohmann::ordered_json& summaries, double link_gbit);

// One sentence: what holds the run up, and what to try; see FindBottleneck.
std::string BottleneckSentence(const nlohmann::ordered_json& summaries, double link_gbit);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_LAUNCH_LAUNCH_REPORT_H_
