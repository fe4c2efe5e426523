#include "bench/rank/pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/wire/layout.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

constexpr size_t kStepStride = 7;

// Uniform over [-1, 1); uses all 24 bits of a float's significand.
float Term(int rank, uint64_t index) {
  uint64_t x = (index << 16) + static_cast<uint64_t>(rank) + 1;
  x *= 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<float>(x >> 40) / (1 << 23) - 1.0f;
}

// The mean of all ranks' terms, summed from rank `first` on.
float MeanFrom(int first, int world_size, uint64_t index) {
  float sum = Term(first, index);
  for (int i = 1; i < world_size; ++i) sum += Term((first + i) % world_size, index);
  return sum * (1.0f / static_cast<float>(world_size));
}

}  // namespace

Tolerance ToleranceOf(const std::string& backend, const std::string& wire, int world_size,
                      const Operation& operation) {
  if (wire == "bf16") return {std::ldexp(world_size + 1.0, -8), 0};
  if (wire == "fp16") return {std::ldexp(world_size + 1.0, -11), std::ldexp(1.0, -23)};
  const bool folds = operation.collective == v1::COLLECTIVE_ALL_REDUCE;
  return folds && TraitsOfBackend(backend).exact != Exact::kNever
             ? Tolerance{}
             : Tolerance{std::ldexp(world_size + 1.0, -23), 0};
}

std::vector<Expected> ExpectedOf(const Operation& operation, Rank rank, int world_size,
                                 size_t elements) {
  const size_t part = elements / world_size;
  const auto mine = static_cast<size_t>(rank.value());
  const int root = 0;
  switch (operation.collective) {
    case v1::COLLECTIVE_SEND_RECV:
      if (rank != Rank(world_size - 1)) return {};
      return {{0, elements, root}};
    case v1::COLLECTIVE_BROADCAST:
      return {{0, elements, root}};
    case v1::COLLECTIVE_SCATTER:
      return {{part * mine, part * (mine + 1), root}};
    case v1::COLLECTIVE_REDUCE_SCATTER:
      return {{part * mine, part * (mine + 1), Expected::kMean}};
    case v1::COLLECTIVE_GATHER:
    case v1::COLLECTIVE_ALL_GATHER:
      break;
    case v1::COLLECTIVE_REDUCE:
      if (rank != Rank(root)) return {};
      return {{0, elements, Expected::kMean}};
    default:
      return {{0, elements, Expected::kMean}};
  }
  std::vector<Expected> parts;
  const bool gets_all = operation.collective == v1::COLLECTIVE_ALL_GATHER || rank == Rank(root);
  for (int r = 0; gets_all && r < world_size; ++r) parts.push_back({part * r, part * (r + 1), r});
  return parts;
}

Pattern::Pattern(size_t size, int world_size, Rank rank, Tolerance tolerance)
    : rank_(rank),
      terms_(world_size),
      means_(world_size, std::vector<float>(kPeriod)),
      tolerance_(kPeriod) {
  for (size_t i = 0; i < kPeriod; ++i) {
    double magnitude = 0;
    for (int r = 0; r < world_size; ++r) {
      terms_[r].push_back(Term(r, i));
      means_[r][i] = MeanFrom(r, world_size, i);
      magnitude += std::abs(Term(r, i));
    }
    tolerance_[i] = tolerance.relative * magnitude / world_size + tolerance.absolute;
  }
  const BucketSpec bucket{size * sizeof(float), v1::DTYPE_FLOAT32};
  const FoldBlocks blocks({bucket}, world_size);
  ranges_ = blocks.Cut(Bucket(0), 0, bucket.bytes);
  block_elements_ = blocks.block_elements();
}

size_t Pattern::Offset(Step step) { return step.value() * kStepStride % kPeriod; }

bool Pattern::Right(Step step, size_t index, float value, int rank) const {
  const size_t at = (Offset(step) + index) % kPeriod;
  if (rank != Expected::kMean) return value == terms_[rank][at];
  const auto first = static_cast<size_t>(ranges_[index / block_elements_].first_rank);
  // False for NaN.
  return std::abs(static_cast<double>(value) - means_[first][at]) <= tolerance_[at];
}

void Pattern::Fill(Step step, absl::Span<float> terms) const {
  const std::vector<float>& mine = terms_[rank_.value()];
  size_t from = Offset(step);
  for (size_t at = 0; at < terms.size();) {
    const size_t count = std::min(kPeriod - from, terms.size() - at);
    std::copy_n(mine.begin() + from, count, terms.begin() + at);
    at += count;
    from = 0;
  }
}

uint64_t Pattern::CountWrong(Step step, absl::Span<const float> got,
                             const std::vector<Expected>& expected) const {
  uint64_t wrong = 0;
  for (const Expected& part : expected) {
    for (size_t i = part.begin; i < part.end; ++i) {
      wrong += Right(step, i, got[i], part.rank) ? 0 : 1;
    }
  }
  return wrong;
}

size_t Pattern::SampleCount(size_t size) { return std::min(size, kSamples); }

size_t Pattern::SampleAt(size_t sample, size_t size) {
  const size_t last = SampleCount(size) - 1;
  return last == 0 ? 0 : sample * (size - 1) / last;
}

void Pattern::FillSamples(Step step, absl::Span<float> terms, absl::Span<float> mean) const {
  const std::vector<float>& mine = terms_[rank_.value()];
  for (size_t i = 0; i < SampleCount(terms.size()); ++i) {
    const size_t at = SampleAt(i, terms.size());
    terms[at] = mine[(Offset(step) + at) % kPeriod];
    if (!mean.empty()) mean[at] = std::numeric_limits<float>::quiet_NaN();
  }
}

uint64_t Pattern::CountWrongSamples(Step step, absl::Span<const float> got,
                                    const std::vector<Expected>& expected,
                                    uint64_t* checked) const {
  uint64_t wrong = 0;
  for (size_t i = 0; i < SampleCount(got.size()); ++i) {
    const size_t at = SampleAt(i, got.size());
    for (const Expected& part : expected) {
      if (at < part.begin || at >= part.end) continue;
      ++*checked;
      wrong += Right(step, at, got[at], part.rank) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace gradwire
