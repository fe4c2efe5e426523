#ifndef GRADWIRE_CLI_REPORT_REPORT_LOG_H_
#define GRADWIRE_CLI_REPORT_REPORT_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/telemetry/phases.h"

namespace gradwire {

// One line of a worker's --log-jsonl. NaN where the line has null.
struct LogRecord {
  uint64_t step = 0;  // from 0
  int64_t epoch = 0;
  int rank = 0;
  double loss = 0;
  int64_t samples = 0;
  double iteration = 0;  // seconds
  PhaseSeconds phases;
  double bytes_sent = 0;
  double bytes_received = 0;
};

// One file: a rank's iterations, in order; at least one.
struct RankLog {
  std::string file;
  std::string text;  // of the file; each line of it is a record
  int rank = 0;
  std::vector<LogRecord> records;
};

// Reads a file of --log-jsonl. Errors name the file, the line if it is one, what was got
// and what was expected:
//   NotFound         it is not there, or cannot be read
//   InvalidArgument  it is empty; a line is no JSON object, lacks a field or has a field of
//                    another type (as of another version), is of another rank than the first
//                    one, or has no higher step than the one before; the last line is cut short
absl::StatusOr<RankLog> ReadRankLog(const std::string& path);

// The same for its text; `path` is for messages.
absl::StatusOr<RankLog> ParseRankLog(const std::string& path, absl::string_view text);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_LOG_H_
