#ifndef GRADWIRE_WORKER_REPORT_SUMMARY_H_
#define GRADWIRE_WORKER_REPORT_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/telemetry/mean_estimate.h"
#include "common/telemetry/step_record.h"
#include "worker/report/epochs.h"
#include "worker/report/figure_totals.h"
#include "worker/report/step_log.h"

namespace gradwire {

// Times of iterations, in seconds.
struct IterationSeconds {
  double mean = kUnmeasured;
  double p50 = kUnmeasured;
  double p90 = kUnmeasured;
  double p99 = kUnmeasured;
};

// One rank's result: the fields of --summary, by the same names. No time includes the first
// iteration, which warms up, so a run of one iteration has none.
struct Summary {
  int rank = 0;
  int world_size = 1;
  std::string sync;
  std::string backend;
  std::vector<std::vector<int>> in_memory;  // groups of ranks that exchange through memory
  std::string wire;
  std::string compress;
  std::string model;
  std::string dataset;
  int64_t batch_size = 0;  // per rank and pass
  int64_t accumulate = 1;  // passes per iteration
  struct Emulated {        // seconds of sleep per step instead of computation
    double forward_seconds = 0;
    double backward_seconds = 0;
  };
  absl::optional<Emulated> emulated;  // absent if the model computes
  int64_t iterations = 0;
  int64_t first_step = 0;  // of a run that continued from a checkpoint; else 0
  struct Ended {           // early, before all iterations were done
    int code = 0;          // of the process
    std::string reason;
  };
  absl::optional<Ended> ended;  // absent if the run was done; else there are no fields of the model
  IterationSeconds iteration_seconds;
  PhaseSeconds phase_seconds;     // means
  MeanEstimate own_work_seconds;  // see OwnWork
  // The ranks that the rank's worker carried at the end, including this one; and the mean number
  // that it computed in the timed iterations: more than one makes them longer.
  std::vector<int> ranks_of_worker;
  double mean_ranks_of_worker = kUnmeasured;
  uint64_t bytes_sent = 0;  // in the rank's iterations: its part of the worker's
  uint64_t bytes_received = 0;
  struct {
    double first = kUnmeasured;
    double last = kUnmeasured;
  } loss;
  int64_t print_every = 0;
  std::vector<double> losses;    // at iterations 0, N, 2 N, …; N is print_every
  Quality train;                 // in the last epoch
  absl::optional<Quality> test;  // at the end; absent without --evaluate
  std::vector<EpochRow> epochs;
  FigureTotals figures;  // over all steps
  // For compressed gradients, over the whole run; else absent.
  absl::optional<double> compression_ratio;
  int64_t trained_parameters = 0;
  // Hashes of tensors that training does not change, before and after it; empty if there are none.
  struct {
    std::string first;
    std::string last;
  } frozen_sha256;
  std::string outputs_sha256;  // of --inference; else empty
  // With several devices, how long one would wait at a barrier after a step (mean); else absent.
  absl::optional<double> barrier_seconds;
  std::string parameters_sha256;
  std::string buffers_sha256;
  std::string buffers;             // float32 ones, in base64, if ranks keep their own; else absent
  struct Failures {                // of the worker that writes it
    int64_t views = 1;             // in which it trained
    int64_t losses = 0;            // other workers lost before the last view
    int64_t retries = 0;           // steps computed again after a loss
    int64_t recomputed_ranks = 0;  // ranks taken over
    LostTime lost;                 // in all losses
    std::vector<Recovery> recoveries;
  } failures;
};

// Collects the data of a summary step by step, except epochs. Needs 8 bytes per step. Not
// thread-safe.
class SummaryCollector {
 public:
  explicit SummaryCollector(int64_t print_every) : print_every_(print_every) {}

  // Adds the next step, always for the same rank; its worker computed `ranks_of_worker` ranks in
  // it.
  void Add(const StepRecord& record, size_t ranks_of_worker = 1);

  // Sets iterations, iteration_seconds, phase_seconds, own_work_seconds, mean_ranks_of_worker,
  // bytes_sent, bytes_received, loss, print_every, losses and figures; does not change the rest.
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
  PhaseTimes sums_;                        // without the first iteration
  MeanEstimate own_work_;                  // without the first iteration; seconds
  size_t ranks_of_worker_ = 0;             // without the first iteration; a sum
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  FigureTotals figures_;
};

// Returns mean and percentiles of `seconds`, interpolated between the two nearest values; all
// unmeasured if there are none.
IterationSeconds Describe(std::vector<double> seconds);

// Returns an indented JSON object with a final newline; values that are not finite are null.
std::string ToJson(const Summary& summary);

// Writes ToJson to the file; see ReplaceFile.
absl::Status WriteSummary(absl::string_view path, const Summary& summary);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_REPORT_SUMMARY_H_
