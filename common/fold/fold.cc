#include "common/fold/fold.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/fold/kernels.h"
#include "common/fold/piece_cursor.h"

namespace gradwire {
namespace {

template <typename T>
using PerTerm = absl::InlinedVector<T, 16>;

const KernelSet& Best() { return SupportedKernels().front(); }

// Elements that lie whole in the current piece of every term, at most `limit`.
size_t RunLength(const PerTerm<PieceCursor>& cursors, size_t limit) {
  for (const PieceCursor& cursor : cursors) limit = std::min(limit, cursor.run());
  return limit;
}

}  // namespace

void Fold(absl::Span<const Pieces> terms, absl::Span<float> out) {
  Fold(terms, v1::DTYPE_FLOAT32, {reinterpret_cast<uint8_t*>(out.data()), 4 * out.size()});
}

bool Fold(absl::Span<const Pieces> terms, v1::DType dtype, absl::Span<uint8_t> mean) {
  const WireKernels& kernels = Best().For(dtype);
  const float scale = 1.0f / static_cast<float>(terms.size());
  PerTerm<PieceCursor> cursors;
  for (const Pieces& term : terms) cursors.emplace_back(term, kernels.element_bytes);
  PerTerm<const uint8_t*> runs(terms.size());
  bool overflow = false;
  const size_t count = mean.size() / kernels.element_bytes;
  for (size_t done = 0; done < count;) {
    const size_t run = RunLength(cursors, count - done);
    for (size_t r = 0; r < runs.size(); ++r) {
      runs[r] = run > 0 ? cursors[r].data() : cursors[r].TakeElement();
    }
    uint8_t* out = mean.data() + kernels.element_bytes * done;
    overflow |= kernels.fold(runs, std::max<size_t>(run, 1), scale, out);
    for (PieceCursor& cursor : cursors) cursor.Advance(run);
    done += std::max<size_t>(run, 1);
  }
  return overflow;
}

bool AddScaled(const Pieces& a, v1::DType dtype, const float* b, float scale,
               absl::Span<uint8_t> out) {
  const WireKernels& kernels = Best().For(dtype);
  PieceCursor cursor(a, kernels.element_bytes);
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

absl::string_view FoldInstructionSet() { return Best().name; }

}  // namespace gradwire
