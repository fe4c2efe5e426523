#include "common/fold/fold.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/fold/blocks.h"
#include "common/fold/kernels.h"

namespace gradwire {

bool Narrow(absl::Span<const float> values, v1::DType dtype, uint8_t* out) {
  return KernelsInUse().For(dtype).narrow(values.data(), values.size(), out);
}

void Widen(const ByteSpans& pieces, v1::DType dtype, absl::Span<float> out) {
  const WireKernels& kernels = KernelsInUse().For(dtype);
  SpanCursor cursor(pieces, kernels.element_bytes);
  for (size_t done = 0; done < out.size();) {
    const size_t run = std::min(cursor.run(), out.size() - done);
    const uint8_t* from = run > 0 ? cursor.data() : cursor.TakeElement();
    kernels.widen(from, std::max<size_t>(run, 1), &out[done]);
    cursor.Advance(run);
    done += std::max<size_t>(run, 1);
  }
}

namespace {

template <typename T>
using PerTerm = absl::InlinedVector<T, 16>;

// Returns the number of whole elements in the current piece of every term, at most `limit`.
size_t RunLength(const PerTerm<SpanCursor>& cursors, size_t limit) {
  for (const SpanCursor& cursor : cursors) limit = std::min(limit, cursor.run());
  return limit;
}

// Sums the next `count` elements of all terms, starting with rank `first`.
bool FoldNext(const WireKernels& kernels, size_t first, size_t count, PerTerm<SpanCursor>* cursors,
              uint8_t* out) {
  const size_t ranks = cursors->size();
  const float scale = 1.0f / static_cast<float>(ranks);
  PerTerm<const uint8_t*> runs(ranks);
  bool overflow = false;
  for (size_t done = 0; done < count;) {
    const size_t run = RunLength(*cursors, count - done);
    for (size_t i = 0; i < ranks; ++i) {
      SpanCursor& cursor = (*cursors)[(first + i) % ranks];
      runs[i] = run > 0 ? cursor.data() : cursor.TakeElement();
    }
    overflow |=
        kernels.fold(runs, std::max<size_t>(run, 1), scale, out + kernels.element_bytes * done);
    for (SpanCursor& cursor : *cursors) cursor.Advance(run);
    done += std::max<size_t>(run, 1);
  }
  return overflow;
}

}  // namespace

bool Fold(absl::Span<const ByteSpans> terms, v1::DType dtype, absl::Span<const FoldRange> ranges,
          absl::Span<uint8_t> mean) {
  const WireKernels& kernels = KernelsInUse().For(dtype);
  PerTerm<SpanCursor> cursors;
  for (const ByteSpans& term : terms) cursors.emplace_back(term, kernels.element_bytes);
  bool overflow = false;
  uint8_t* out = mean.data();
  for (const FoldRange& range : ranges) {
    overflow |= FoldNext(kernels, static_cast<size_t>(range.first_rank),
                         range.bytes / kernels.element_bytes, &cursors, out);
    out += range.bytes;
  }
  return overflow;
}

namespace {

constexpr size_t kHopElements = 2048;  // partial sums that stay in the cache between two additions

uint64_t BitOf(size_t rank, bool overflow) { return static_cast<uint64_t>(overflow) << rank % 64; }

uint64_t FoldTileByHops(const WireKernels& kernels, absl::Span<const float* const> terms,
                        const FoldRange& tile, uint8_t* out) {
  uint8_t sums[2][kHopElements * sizeof(float)];
  const size_t ranks = terms.size();
  const size_t at = tile.offset / sizeof(float);
  const size_t count = tile.bytes / sizeof(float);
  const auto first = static_cast<size_t>(tile.first_rank);
  uint64_t overflow =
      BitOf(first, kernels.narrow(terms[first] + at, count, ranks == 1 ? out : sums[0]));
  for (size_t hop = 1; hop < ranks; ++hop) {
    const bool last = hop + 1 == ranks;
    const size_t rank = (first + hop) % ranks;
    const float scale = last ? 1.0f / static_cast<float>(ranks) : 1.0f;
    overflow |= BitOf(rank, kernels.add_scaled(sums[(hop + 1) % 2], terms[rank] + at, count, scale,
                                               last ? out : sums[hop % 2]));
  }
  return overflow;
}

}  // namespace

uint64_t FoldByHops(absl::Span<const float* const> terms, v1::DType dtype,
                    absl::Span<const FoldRange> ranges, absl::Span<uint8_t> mean) {
  const WireKernels& kernels = KernelsInUse().For(dtype);
  constexpr uint64_t kMost = kHopElements * sizeof(float);
  uint64_t overflow = 0;
  FoldRange tile;
  for (const FoldRange& range : ranges) {
    for (uint64_t done = 0; done < range.bytes; done += tile.bytes) {
      tile = {tile.offset, std::min(range.bytes - done, kMost), range.first_rank};
      uint8_t* out = mean.data() + tile.offset / sizeof(float) * kernels.element_bytes;
      overflow |= FoldTileByHops(kernels, terms, tile, out);
      tile.offset += tile.bytes;
    }
  }
  return overflow;
}

bool AddScaled(const ByteSpans& a, v1::DType dtype, const float* b, float scale,
               absl::Span<uint8_t> out) {
  const WireKernels& kernels = KernelsInUse().For(dtype);
  SpanCursor cursor(a, kernels.element_bytes);
  bool overflow = false;
  const size_t count = out.size() / kernels.element_bytes;
  for (size_t done = 0; done < count;) {
    const size_t run = std::min(cursor.run(), count - done);
    const uint8_t* from = run > 0 ? cursor.data() : cursor.TakeElement();
    uint8_t* to = out.data() + kernels.element_bytes * done;
    overflow |= kernels.add_scaled(from, b + done, std::max<size_t>(run, 1), scale, to);
    cursor.Advance(run);
    done += std::max<size_t>(run, 1);
  }
  return overflow;
}

}  // namespace gradwire
