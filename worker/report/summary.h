#ifndef GRADWIRE_WORKER_REPORT_SUMMARY_H_
#define GRADWIRE_WORKER_REPORT_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/telemetry/step_record.h"
#include "worker/report/epochs.h"
#include "worker/report/figure_totals.h"
#include "worker/report/step_log.h"

namespace gradwire {

// How long iterations took, in seconds.
struct IterationSeconds {
  double mean = kUnmeasured;
  double p50 = kUnmeasured;
  double p90 = kUnmeasured;
  double p99 = kUnmeasured;
};

// What one rank's run came to: the fields of --summary, by the same names. The
// first iteration warms up, so it counts in no time; a run of one has none.
struct Summary {
  int rank = 0;
  int world_size = 1;
  std::string sync;
  std::string backend;
  std::string wire;
  std::string compress;
  std::string model;
  std::string dataset;
  int64_t batch_size = 0;  // per rank
  struct Emulated {        // seconds of sleep a step in place of computation
    double forward_seconds = 0;
    double backward_seconds = 0;
  };
  absl::optional<Emulated> emulated;  // absent where the model computes
  int64_t iterations = 0;
  struct Ended {   // before all iterations were done
    int code = 0;  // of the process
    std::string reason;
  };
  absl::optional<Ended> ended;  // absent of a run that was done; else there is nothing of the model
  IterationSeconds iteration_seconds;
  PhaseSeconds phase_seconds;  // means
  // The ranks that the rank's worker carried at the end, this one among them; and, as a mean over
  // the iterations whose times are above, how many it computed: more than one make them longer.
  std::vector<int> ranks_of_worker;
  double mean_ranks_of_worker = kUnmeasured;
  uint64_t bytes_sent = 0;  // of the whole run
  uint64_t bytes_received = 0;
  struct {
    double first = kUnmeasured;
    double last = kUnmeasured;
  } loss;
  int64_t print_every = 0;
  std::vector<double> losses;    // of iterations 0, N, 2 N, …; N is print_every
  Quality train;                 // of the last epoch
  absl::optional<Quality> test;  // at the end; absent without --evaluate
  std::vector<EpochRow> epochs;
  FigureTotals figures;  // of all steps
  // Of gradients that are compressed: over the whole run. Absent of others.
  absl::optional<double> compression_ratio;
  int64_t trained_parameters = 0;
  // Of what training leaves as it is, before and after it; empty if there is no such thing.
  struct {
    std::string first;
    std::string last;
  } frozen_sha256;
  std::string outputs_sha256;  // of --inference; empty without
  std::string parameters_sha256;
  std::string buffers_sha256;
  std::string buffers;    // float32 ones, in base64, where ranks keep their own; else absent
  struct Failures {       // of the worker that writes it
    int64_t views = 1;    // that it trained in
    int64_t losses = 0;   // other workers that were lost before the last of them
    int64_t retries = 0;  // steps that it computed anew because another was lost
    int64_t recomputed_ranks = 0;  // ranks that it took over
    LostTime lost;                 // in all of them
    std::vector<Recovery> recoveries;
  } failures;
};

// Gathers step by step what a summary needs, but for epochs. Holds 8 bytes a step. Not
// thread-safe.
class SummaryCollector {
 public:
  explicit SummaryCollector(int64_t print_every) : print_every_(print_every) {}

  // The next step, all of one rank; its worker computed `ranks_of_worker` ranks in it.
  void Add(const StepRecord& record, size_t ranks_of_worker = 1);

  // Sets iterations, iteration_seconds, phase_seconds, mean_ranks_of_worker, loss, print_every,
  // losses and figures; leaves the rest.
  void Fill(Summary& summary) const;

 private:
  void AddTimes(const StepRecord& record, size_t ranks_of_worker);
  PhaseSeconds MeanPhases() const;

  const int64_t print_every_;
  int64_t iterations_ = 0;
  double first_loss_ = kUnmeasured;
  double last_loss_ = kUnmeasured;
  std::vector<double> losses_;
  std::vector<double> iteration_seconds_;  // without the first iteration
  PhaseTimes sums_;                        // likewise
  size_t ranks_of_worker_ = 0;             // likewise: a sum
  FigureTotals figures_;
};

// Mean and percentiles of `seconds`, interpolated between the two nearest
// values; all unmeasured if there are none.
IterationSeconds Describe(std::vector<double> seconds);

// One indented JSON object that ends with a newline; what is not finite is null.
std::string ToJson(const Summary& summary);

// Writes ToJson to the file; see ReplaceFile.
absl::Status WriteSummary(absl::string_view path, const Summary& summary);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_SUMMARY_H_
