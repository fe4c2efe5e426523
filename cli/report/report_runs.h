#ifndef GRADWIRE_CLI_REPORT_REPORT_RUNS_H_
#define GRADWIRE_CLI_REPORT_REPORT_RUNS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/report_log.h"

namespace gradwire {

// The logs of one run, by rank.
struct LoggedRun {
  std::string name;   // unique among the runs
  std::string setup;  // its name without the number of its ranks: what scaling is shown by
  std::vector<RankLog> ranks;
};

// A run that was put together by hand: --run NAME=FILE,FILE.
struct NamedLogs {
  std::string name;
  std::vector<std::string> files;
};

// "NAME=FILE[,FILE...]". InvalidArgument shows the text.
absl::StatusOr<NamedLogs> ParseNamedLogs(const std::string& text);

// Files whose names differ in nothing but their rank are one run, as those of
// `gradwire launch` are:
//
//   ddp.rank0.jsonl, ddp.rank1.jsonl     run "ddp"
//   a/ddp-0.jsonl, a/ddp-1.jsonl         run "ddp": the last number that is the file's own rank
//   0/ddp.jsonl, 1/ddp.jsonl             run "ddp": likewise, in its folders
//
// A run is named after its files without folder and ending; with the folder where
// two would have one name. In the order in which the logs stand.
//
// InvalidArgument: two logs of a run are of the same rank, or two of `named` have
// one name.
absl::StatusOr<std::vector<LoggedRun>> GroupRuns(std::vector<RankLog> logs);
// The same for logs of one --run.
absl::StatusOr<LoggedRun> MakeRun(std::string name, std::vector<RankLog> logs);

// `name` without a part that is the number of ranks: "ddp" for "ddp-4",
// "ddp-w4", "4ranks-ddp" or "ddp_4nodes" with 4 ranks.
std::string SetupName(const std::string& name, size_t ranks);

// What a reader has to know of the logs: ranks below a run's highest one of which no
// log is there, and ranks that have done other steps than the rest. A sentence each.
std::vector<std::string> NotesOf(const std::vector<LoggedRun>& runs);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_RUNS_H_
