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
