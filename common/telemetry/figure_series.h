#ifndef GRADWIRE_COMMON_TELEMETRY_FIGURE_SERIES_H_
#define GRADWIRE_COMMON_TELEMETRY_FIGURE_SERIES_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <vector>

#include "absl/types/optional.h"
#include "common/compress/compression_totals.h"
#include "common/telemetry/step_record.h"

namespace gradwire {

// Compression figures of a step, from a worker's totals. Not thread-safe.
class CompressionMeter {
 public:
  // `totals` are up to the end of a step. Returns none if nothing was compressed in it. The
  // residual is of the last step in which it was measured.
  absl::optional<StepRecord::Compressed> OnStep(const CompressionTotals& totals);

 private:
  CompressionTotals counted_;
  absl::optional<double> residual_;
};

// {rank="3"}.
prometheus::Labels RankLabel(Rank rank);

// The series of /metrics that kStepFigures declares. Thread-safe.
class FigureSeries {
 public:
  enum class Of { kWorker, kCoordinator };

  // Declares the series in `registry`, which must outlive this object. Figures of every run exist
  // from the start, as 0; others appear with their first value, and so do those of each rank.
  FigureSeries(prometheus::Registry* registry, Of of);

  // Adds a step to the counters and sets the gauges. Takes a lock per figure and may allocate.
  void Observe(const StepRecord& record) const;

 private:
  // One of the two families is null, depending on the figure's kind.
  struct Row {
    const StepFigure* figure;
    prometheus::Family<prometheus::Counter>* counters;
    prometheus::Family<prometheus::Gauge>* gauges;
  };
  bool IsOfRank(const StepFigure& figure) const;
  static void Add(const Row& row, const FigureValue& value, const prometheus::Labels& labels);

  const Of of_;
  std::vector<Row> rows_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_FIGURE_SERIES_H_
