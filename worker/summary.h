#ifndef GRADWIRE_WORKER_SUMMARY_H_
#define GRADWIRE_WORKER_SUMMARY_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "worker/iteration_record.h"

namespace gradwire {

// Seconds.
struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

// Mean, and percentiles interpolated linearly between the two nearest values
// (as numpy does). All NaN if there is no value.
Distribution DistributionOf(std::vector<double> values);

// Mean seconds of each phase (see PhaseTimes).
struct PhaseMeans {
  double data = 0;
  double forward = 0;
  double backward = 0;
  double communication = 0;
  double exposed_communication = 0;
  double optimizer = 0;
};

struct TestResult {
  double loss = 0;
  double accuracy = 0;  // 0 … 1
};

// What is said about a run of one rank when it is over: the object that
// --summary writes. Field names are those of the JSON.
struct Summary {
  int rank = 0;
  int world_size = 1;
  std::string sync;
  std::string backend;
  std::string wire;
  std::string model;
  std::string dataset;
  int64_t batch_size = 0;  // per rank
  int64_t iterations = 0;
  Distribution iteration_seconds;  // without the first iteration
  PhaseMeans phase_seconds;        // without the first iteration
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  double first_loss = 0;            // loss.first
  double last_loss = 0;             // loss.last
  std::vector<double> losses;       // of each print-every'th iteration
  absl::optional<TestResult> test;  // with --evaluate
  std::string parameters_sha256;
  std::string buffers_sha256;
  int64_t samples_seen = 0;      // samples.seen
  int64_t samples_padded = 0;    // samples.padded
  int64_t views = 0;             // failures.views
  int64_t retries = 0;           // failures.retries
  int64_t recomputed_ranks = 0;  // failures.recomputed_ranks
};

// Numbers that are not finite become null; so does an absent test.
nlohmann::ordered_json ToJson(const Summary& summary);

// Gathers from all iterations what a summary says about them. Not thread-safe.
class SummaryRecorder {
 public:
  // `print_every` 0: no losses but the first and the last.
  explicit SummaryRecorder(int64_t print_every) : print_every_(print_every) {}

  void Add(const IterationRecord& record);
  // Writes iterations, their times, bytes, losses and samples. With fewer than
  // two iterations times are NaN; without any, losses are too.
  void FillIn(Summary* summary) const;

 private:
  const int64_t print_every_;
  std::vector<double> seconds_;  // of all iterations but the first
  PhaseMeans sums_;              // likewise
  int64_t iterations_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  double first_loss_ = 0;
  double last_loss_ = 0;
  std::vector<double> losses_;
  int64_t samples_ = 0;
  int64_t padded_ = 0;
};

// Writes `json` and a newline to `path`, at once: readers see the old file or
// the whole new one. FailedPrecondition names the file and the cause.
absl::Status WriteJsonFile(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_SUMMARY_H_
