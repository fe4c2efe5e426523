#ifndef GRADWIRE_CLI_REPORT_REPORT_STATS_H_
#define GRADWIRE_CLI_REPORT_REPORT_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/report/report_runs.h"
#include "worker/report/summary.h"

namespace gradwire {

// One step of a run. Times in seconds; NaN where no rank has one.
struct StepStats {
  uint64_t step = 0;  // from 0
  int64_t epoch = 0;
  int ranks = 0;    // that logged it
  double loss = 0;  // mean over the ranks, of those that are finite
  int64_t samples = 0;
  double iteration = 0;   // mean over the ranks
  double longest = 0;     // of a rank
  int slowest_rank = 0;   // whose own work (iteration − exposed communication) took longest
  PhaseSeconds phases;    // means over the ranks
  double bytes_sent = 0;  // of all ranks
  double bytes_received = 0;
};

// A run as a whole. Times are over all ranks and iterations but each rank's first
// in its log, which warms up; NaN if there is no other.
struct RunStats {
  std::string name;
  std::string setup;
  int ranks = 0;
  uint64_t steps = 0;
  IterationSeconds iteration;
  PhaseSeconds phases;            // means
  double samples_per_second = 0;  // sum over the ranks
  double bytes_sent = 0;          // of an iteration and rank, mean
  double first_loss = 0;
  double last_loss = 0;
  std::string bottleneck;  // a sentence
  std::vector<StepStats> by_step;
};

RunStats Describe(const LoggedRun& run);

// The part of an iteration that is none of its phases; at least 0.
double OtherSeconds(const RunStats& run);

// CSV with a line of titles: a line for each run, and one for each step of each run.
// What is NaN is left empty.
std::string RunsCsv(const std::vector<RunStats>& runs);
std::string StepsCsv(const std::vector<RunStats>& runs);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_REPORT_REPORT_STATS_H_
