#ifndef GRADWIRE_CLI_BENCH_BENCH_COLLECTIVES_H_
#define GRADWIRE_CLI_BENCH_BENCH_COLLECTIVES_H_

#include "absl/status/status.h"
#include "bench/report.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_runner.h"

namespace gradwire {

// Measures each size with each back end, and with PyTorch + Gloo if peers are to
// run, and adds the rows to `report`, which on error holds what was measured
// before. Says on stderr how it goes.
//   Internal, DeadlineExceeded, Cancelled   of BenchRunner, with size and back end
//   DataLoss                                values were wrong
absl::Status MeasureCollectives(const CollectivesOptions& options, BenchRunner* runner,
                                Report* report);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_BENCH_BENCH_COLLECTIVES_H_
