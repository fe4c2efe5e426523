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

// How far a mean may be from the fold.
struct Tolerance {
  double relative = 0;  // to the mean of the terms' absolute values
  double absolute = 0;
};

// 0 where the fold is promised bit for bit; for other orders of addition and for
// rounding on the wire the most that W + 1 roundings can do.
Tolerance ToleranceOf(const std::string& backend, const std::string& wire, int world_size,
                      const Operation& operation = OperationCalled("all-reduce"));

// What comes out at one place: elements [begin, end) are the mean, or what a rank put in there.
struct Expected {
  size_t begin = 0;
  size_t end = 0;
  int rank = kMean;
  static constexpr int kMean = -1;
};
// All that comes out at `rank` of `elements` elements.
std::vector<Expected> ExpectedOf(const Operation& operation, Rank rank, int world_size,
                                 size_t elements);

// Known terms of one bucket for every rank and step, and their mean, computed here and not by
// any back end. Terms repeat with a prime period, so that a chunk that lands in
// the wrong place shows, and move by some elements from step to step, so that a
// result of another step shows.
class Pattern {
 public:
  // Of a bucket of `size` elements, alone in its layout.
  Pattern(size_t size, int world_size, Rank rank, Tolerance tolerance);

  // This rank's terms of `step`.
  void Fill(Step step, absl::Span<float> terms) const;
  // How many elements of `got` are not what `step` must give.
  uint64_t CountWrong(Step step, absl::Span<const float> got,
                      const std::vector<Expected>& expected) const;

  // The same for single elements: every one in a small bucket, else kSamples of
  // them, evenly spread, with the first and the last. Cheap enough for between two
  // measured iterations. FillSamples also spoils `mean` there.
  void FillSamples(Step step, absl::Span<float> terms, absl::Span<float> mean) const;
  // `checked` grows by the samples of which it is known what must come out.
  uint64_t CountWrongSamples(Step step, absl::Span<const float> got,
                             const std::vector<Expected>& expected, uint64_t* checked) const;
  // Samples in a bucket of `size` elements.
  static size_t SampleCount(size_t size);

 private:
  static constexpr size_t kPeriod = 4099;
  static constexpr size_t kSamples = 1024;

  static size_t Offset(Step step);
  static size_t SampleAt(size_t sample, size_t size);
  // `index`: of the element in the bucket; `rank`: see Expected.
  bool Right(Step step, size_t index, float value, int rank) const;

  const Rank rank_;
  std::vector<std::vector<float>> terms_;  // by rank, one period
  std::vector<std::vector<float>> means_;  // of all ranks, by the rank that the sum begins with
  std::vector<double> tolerance_;          // of each mean
  std::vector<FoldRange> ranges_;          // one for each block
  uint64_t block_elements_ = 1;
};

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_RANK_PATTERN_H_
