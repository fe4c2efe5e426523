#ifndef GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_
#define GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/telemetry/metrics_server.h"
#include "coordinator/pages/run_history.h"
#include "gradwire/v1/status.pb.h"

namespace gradwire {

// A file of the live page. It is part of the program, and lives as long.
struct WebAsset {
  absl::string_view content_type;  // as in HTTP's Content-Type
  absl::string_view body;
};

// The file that is served as /assets/`name`, such as "page.js"; "" is the page
// itself, which is served as /. nullptr if there is none of that name.
// Thread-safe.
const WebAsset* FindWebAsset(absl::string_view name);

// What the coordinator tells of its run over HTTP, as JSON. Times are Unix
// seconds, durations seconds; what is not finite, or not known, is null.
// docs/output.md lists the fields. Pure functions; any thread.

// How many steps all ranks have done.
uint64_t StepsDone(const v1::StatusReply& status);

// /status.json: the state of the run and of each rank.
std::string StatusJson(const v1::StatusReply& status, const RunHistory& history, absl::Time now);

// What `gradwire-coordinator --aggregation-summary` writes: "coordinator" of /status.json,
// indented.
std::string CoordinatorSummary(const RunHistory& history);

// /history.json: the steps so far in at most `points` points.
std::string HistoryJson(const RunHistory& history, absl::string_view run_id, size_t points);

// /sd, for Prometheus' http_sd_configs: the coordinator, which serves at `own_address`
// ("host:port"), and the workers that are in the run and serve metrics.
std::string TargetsJson(const v1::StatusReply& status, absl::string_view own_address);

// Who scrapes the targets above asks for "/metrics?run=HEX". If that is another run than
// `run`, which was here before and left its port: 404. None: answer as usual.
absl::optional<Page> AnswerOtherRun(absl::string_view query, absl::string_view run);

// The value of "points" in a query such as "points=600": 600 if it is not there. At
// most 2000. InvalidArgument if it is no positive number.
absl::StatusOr<size_t> PointsOfQuery(absl::string_view query);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_PAGES_RUN_PAGES_H_
