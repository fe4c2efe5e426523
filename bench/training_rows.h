#ifndef GRADWIRE_BENCH_TRAINING_ROWS_H_
#define GRADWIRE_BENCH_TRAINING_ROWS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/base/table.h"

namespace gradwire {

// What all rounds of one set-up measured, without each round's first iteration.
struct TrainingTimes {
  std::vector<double> iteration_seconds;  // of each, the mean over ranks
  std::vector<double> exposed_seconds;    // mean of all ranks; empty if not measured
  bool ranks_agree = true;                // all ranks had one parameters_sha256 in every round
};

// Adds what the ranks of one round printed: a line of JSON for each iteration,
// with iteration_seconds and perhaps exposed communication among its phase_seconds, and
// after them perhaps a summary with parameters_sha256. `compare`: whether the
// hashes of the ranks must agree. Internal if a rank printed something else, or
// ranks printed different numbers of iterations.
absl::Status AddRound(const std::vector<std::string>& ranks, bool compare, TrainingTimes* times);

// By set-up, in the order of `names`. Fields of TrainingColumns(); "efficiency"
// and "over computation" are against the median of set-up "computation".
TableRows TrainingRows(const std::vector<std::string>& names,
                       const std::map<std::string, TrainingTimes>& times);
const std::vector<TableColumn>& TrainingColumns();

// A row for each pair of a set-up and a peer of it (see bench/setups.inc) that were
// both measured: the ratio of their medians.
TableRows ComparisonRows(const std::vector<std::string>& names,
                         const std::map<std::string, TrainingTimes>& times);
const std::vector<TableColumn>& ComparisonColumns();

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_TRAINING_ROWS_H_
