#ifndef GRADWIRE_CLI_BENCH_BENCH_TRAINING_H_
#define GRADWIRE_CLI_BENCH_BENCH_TRAINING_H_

#include "absl/status/status.h"
#include "bench/report.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_runner.h"

namespace gradwire {

// Trains with each set-up in turn, in rounds, and adds the tables to `report`,
// which on error holds what was measured before. Says on stderr how it goes.
//   Internal, DeadlineExceeded, Cancelled   of BenchRunner, with round and set-up
//   DataLoss                                ranks of one run ended with different
//                                           parameters
absl::Status MeasureTraining(const TrainingOptions& options, BenchRunner* runner, Report* report);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_TRAINING_H_
