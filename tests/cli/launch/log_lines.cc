#include "tests/cli/launch/log_lines.h"

#include <utility>

#include "worker/report/step_log.h"

namespace gradwire::testing {

std::string LogLine(int rank, int step, double seconds, double loss) {
  StepRecord record;
  record.step = Step(static_cast<uint64_t>(step));
  record.rank = Rank(rank);
  record.loss = loss;
  record.samples = 8;
  record.iteration = absl::Seconds(seconds);
  record.phases[Phase::kForward] = absl::Seconds(0.1);
  record.phases[Phase::kExposedCommunication] = absl::Seconds(0.05);
  record.phases[Phase::kCommunication] = absl::Seconds(0.2);
  record.phases[Phase::kBackward] = absl::Seconds(seconds - 0.15);
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
