#include "tests/cli/launch/log_lines.h"

#include <utility>

#include "worker/report/step_log.h"

namespace gradwire::testing {

std::string LogLine(int rank, int step, double seconds, double loss) {
  StepRecord record;
  record.step = static_cast<uint64_t>(step);
  record.rank = rank;
  record.loss = loss;
  record.samples = 8;
  record.times.iteration = absl::Seconds(seconds);
  record.times.forward = absl::Seconds(0.1);
  record.times.exposed_communication = absl::Seconds(0.05);
  record.times.communication = absl::Seconds(0.2);
  record.times.backward = absl::Seconds(seconds - 0.15);
  record.bytes_sent = 1000000;
  record.bytes_received = 2000000;
  return ToJsonLine(record);
}

std::string LogText(int rank, int steps, double seconds) {
  std::string text;
  for (int step = 0; step < steps; ++step) text += LogLine(rank, step, seconds, 2 - 0.1 * step);
  return text;
}

RankLog MakeLog(const std::string& file, int rank, int steps, double seconds) {
  return ParseRankLog(file, LogText(rank, steps, seconds)).value();
}

}  // namespace gradwire::testing
