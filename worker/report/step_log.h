#ifndef GRADWIRE_WORKER_REPORT_STEP_LOG_H_
#define GRADWIRE_WORKER_REPORT_STEP_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/telemetry/phases.h"
#include "common/telemetry/step_record.h"
#include "common/wire/view.h"
#include "worker/report/epochs.h"

namespace gradwire {

// How a worker went on after a loss.
struct Recovery {
  Generation generation;      // of the new view
  Step step;                  // the first step in it
  ViewChange change;          // since the last view in which it trained
  std::vector<Rank> ranks;    // carried from then on
  std::vector<Rank> adopted;  // those that it did not carry before
  bool recomputes = false;    // the worker had begun to compute `step`
  absl::Time heard;           // when the view arrived; time of day
  absl::Time gone_on;         // when it could compute again; time of day
  LostTime lost;
};

// Returns these fields by name, with Unix times in seconds. For the change: the number of `losses`,
// the `lost_ranks`, and their `carriers` with `ranks` and `adopted`. `seconds_lost` is the total of
// `seconds_lost_by_phase`.
nlohmann::ordered_json RecoveryJson(const Recovery& recovery);

// Returns one line of JSON with its newline: the logged figures of kStepFigures, in order. Numbers
// that are not finite become null.
std::string ToJsonLine(const StepRecord& record);
// The same for a finished epoch: kind "epoch" (iterations have no kind), rank, and the fields of
// EpochJson.
std::string ToJsonLine(Rank rank, const EpochRow& row);

// The same for a recovery: kind "recovery", rank, and the fields of RecoveryJson.
std::string ToJsonLine(Rank rank, const Recovery& recovery);

// The file of --log-jsonl: a line per iteration, epoch and loss, each written at once, so that it
// can be followed and survives a crash of this process. Not thread-safe.
class StepLog {
 public:
  // Empties the file if it exists, or, if it `goes_on`, appends to it, after it has removed a last
  // line that a full disk cut short. InvalidArgument "cannot write PATH: …".
  static absl::StatusOr<std::unique_ptr<StepLog>> Open(absl::string_view path,
                                                       bool goes_on = false);

  // `line` ends with its newline. Internal "cannot write PATH: …", for example if the disk is full.
  absl::Status Write(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  StepLog(absl::string_view path, std::FILE* file) : path_(path), file_(file) {}

  const std::string path_;
  const std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_STEP_LOG_H_
