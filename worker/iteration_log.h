#ifndef GRADWIRE_WORKER_ITERATION_LOG_H_
#define GRADWIRE_WORKER_ITERATION_LOG_H_

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "worker/iteration_record.h"

namespace gradwire {

// `path` with the rank in place of each "{rank}".
std::string PathOfRank(const std::string& path, Rank rank);

// One line of the log: step, epoch, rank, loss, iteration_seconds,
// phase_seconds {…}, bytes_sent, bytes_received, samples. Numbers that are not
// finite become null.
nlohmann::ordered_json ToJson(const IterationRecord& record, Rank rank);

// The file of --log-jsonl: one JSON object a line, one line an iteration, each
// written out at once, so that the file can be followed. Not thread-safe.
class IterationLog {
 public:
  // Empties or makes the file. FailedPrecondition names it and the cause.
  static absl::StatusOr<std::unique_ptr<IterationLog>> Open(const std::string& path, Rank rank);

  // FailedPrecondition if the file takes no more.
  absl::Status Write(const IterationRecord& record);

 private:
  IterationLog(std::string path, Rank rank, std::ofstream file);

  const std::string path_;
  const Rank rank_;
  std::ofstream file_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_ITERATION_LOG_H_
