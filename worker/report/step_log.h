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

// How a worker went on when others were lost.
struct Recovery {
  Generation generation;      // of the view that it went on with
  Step step;                  // that this begins with
  ViewChange change;          // since the last view that it trained in
  std::vector<Rank> ranks;    // that the worker carries from there on
  std::vector<Rank> adopted;  // those of them that it did not carry before
  absl::Time heard;           // when the view came; time of day
  absl::Time gone_on;         // when it could compute again; likewise
  LostTime lost;
};

// The fields above by their names, times Unix in seconds; of the change, how many `losses` there
// were, the `lost_ranks`, and the `carriers` of these, with their `ranks` and those `adopted`;
// `seconds_lost` is the total, beside `seconds_lost_by_phase`.
nlohmann::ordered_json RecoveryJson(const Recovery& recovery);

// One line of JSON, with its newline: the figures of kStepFigures that are logged, in their order.
// A number that is not finite is null.
std::string ToJsonLine(const StepRecord& record);
// Likewise, of an epoch that is over: kind, which is "epoch" and which no iteration has, rank, and
// what EpochJson says.
std::string ToJsonLine(Rank rank, const EpochRow& row);

// Likewise, of having gone on without a worker: kind, which is "recovery", rank, and what
// RecoveryJson says.
std::string ToJsonLine(Rank rank, const Recovery& recovery);

// The file of --log-jsonl: a line an iteration, an epoch and a loss, each written at once, so that
// it can be followed and survives a crash of this process. Not thread-safe.
class StepLog {
 public:
  // Empties the file if it exists, or, if it `goes_on`, writes behind what it has. InvalidArgument
  // "cannot write PATH: …".
  static absl::StatusOr<std::unique_ptr<StepLog>> Open(absl::string_view path,
                                                       bool goes_on = false);

  // `line` ends with its newline. Internal "cannot write PATH: …", for example as the disk is full.
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
