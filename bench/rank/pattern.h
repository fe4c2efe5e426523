#ifndef GRADWIRE_BENCH_RANK_PATTERN_H_
#define GRADWIRE_BENCH_RANK_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/operations.h"
#include "common/base/ids.h"
#include "common/fold/blocks.h"

namespace gradwire {

// The tolerated difference between a mean and the fold.
struct Tolerance {
  double relative = 0;  // relative to the mean of the terms' absolute values
  double absolute = 0;
};

// Zero if the back end promises the fold bit for bit. For other orders of addition and for rounding
// on the wire, the maximum error of W + 1 roundings.
Tolerance ToleranceOf(const std::string& backend, const std::string& wire, int world_size,
                      const Operation& operation = OperationCalled("all-reduce"));

// A part of the expected output: elements [begin, end) are the mean, or the input of `rank`.
struct Expected {
  size_t begin = 0;
  size_t end = 0;
  int rank = kMean;
  static constexpr int kMean = -1;
};
// The expected output of `rank` for a bucket of `elements` elements.
std::vector<Expected> ExpectedOf(const Operation& operation, Rank rank, int world_size,
                                 size_t elements);

// Known terms of one bucket for every rank and step, and their mean, computed without a back end.
// Terms repeat with a prime period, to detect a chunk in the wrong place. They move by some
// elements from step to step, to detect a result of another step.
class Pattern {
 public:
  // For a bucket of `size` elements, the only one of its layout.
  Pattern(size_t size, int world_size, Rank rank, Tolerance tolerance);

  // Writes this rank's terms of `step`.
  void Fill(Step step, absl::Span<float> terms) const;
  // Counts the elements of `got` that are wrong for `step`.
  uint64_t CountWrong(Step step, absl::Span<const float> got,
                      const std::vector<Expected>& expected) const;

  // The same for samples: all elements of a small bucket, else kSamples evenly spaced ones, with
  // the first and the last. Cheap enough to run between measured iterations. FillSamples also sets
  // these elements of `mean` to NaN, unless it is empty.
  void FillSamples(Step step, absl::Span<float> terms, absl::Span<float> mean) const;
  // Adds to `checked` the number of samples that have an expected value.
  uint64_t CountWrongSamples(Step step, absl::Span<const float> got,
                             const std::vector<Expected>& expected, uint64_t* checked) const;
  // The number of samples in a bucket of `size` elements.
  static size_t SampleCount(size_t size);

 private:
  static constexpr size_t kPeriod = 4099;
  static constexpr size_t kSamples = 1024;

  static size_t Offset(Step step);
  static size_t SampleAt(size_t sample, size_t size);
  // `index`: the element in the bucket; `rank`: see Expected.
  bool Right(Step step, size_t index, float value, int rank) const;

  const Rank rank_;
  std::vector<std::vector<float>> terms_;  // by rank, one period
  std::vector<std::vector<float>> means_;  // over all ranks, by the rank where the sum starts
  std::vector<double> tolerance_;          // of each mean
  std::vector<FoldRange> ranges_;          // one for each block
  uint64_t block_elements_ = 1;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_PATTERN_H_
