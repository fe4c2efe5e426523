#ifndef GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_
#define GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/telemetry/metrics_server.h"
#include "coordinator/pages/loss_history.h"
#include "coordinator/pages/run_history.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// A file of the live page. It is embedded in the program and valid until its end.
struct WebAsset {
  absl::string_view content_type;  // for HTTP's Content-Type
  absl::string_view body;
};

// Returns the file that is served as /assets/`name`, such as "page.js"; "" is the page itself,
// served as /. nullptr if the name is unknown. Thread-safe.
const WebAsset* FindWebAsset(absl::string_view name);

// The coordinator's pages about its run, as JSON. Times are Unix seconds; durations are in seconds;
// a value that is not finite or not known is null. docs/output.md lists the fields. Pure functions;
// any thread.

// Returns the number of steps that all ranks have done.
uint64_t StepsDone(const v1::StatusReply& status);

// /status.json: the state of the run and of each rank.
std::string StatusJson(const v1::StatusReply& status, const RunHistory& history, absl::Time now);

// Returns the content of `gradwire-coordinator --aggregation-summary`: "coordinator" of
// /status.json, indented.
std::string CoordinatorSummary(const RunHistory& history);

// /history.json: all steps so far in at most `points` points.
std::string HistoryJson(const RunHistory& history, absl::string_view run_id, size_t points);

// /sd, for Prometheus' http_sd_configs: the coordinator at `own_address` ("host:port"), and the
// present workers that serve metrics. A worker's label is the first rank with which it began, also
// after it took over another one, so that its series stay the same.
std::string TargetsJson(const v1::StatusReply& status, const LossHistory& losses,
                        absl::string_view own_address);

// Answers a scraper of the targets above, which requests "/metrics?run=HEX". 404 if that run is not
// `run` but an earlier one that used the same port. None: answer as usual.
absl::optional<Page> AnswerOtherRun(absl::string_view query, absl::string_view run);

// Returns the value of "points" in a query such as "points=600", at most 2000; 600 if it is
// missing. InvalidArgument if it is not a positive number.
absl::StatusOr<size_t> PointsOfQuery(absl::string_view query);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_
