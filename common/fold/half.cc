#include "common/fold/half.h"

#include <algorithm>

#include "common/fold/kernels.h"
#include "common/fold/piece_cursor.h"

namespace gradwire {

bool Narrow(absl::Span<const float> values, v1::DType dtype, uint8_t* out) {
  return KernelsInUse().For(dtype).narrow(values.data(), values.size(), out);
}

void Widen(const Pieces& pieces, v1::DType dtype, absl::Span<float> out) {
  const WireKernels& kernels = KernelsInUse().For(dtype);
  PieceCursor cursor(pieces, kernels.element_bytes);
  for (size_t done = 0; done < out.size();) {
    const size_t run = std::min(cursor.run(), out.size() - done);
    const uint8_t* from = run > 0 ? cursor.data() : cursor.TakeElement();
    kernels.widen(from, std::max<size_t>(run, 1), &out[done]);
    cursor.Advance(run);
    done += std::max<size_t>(run, 1);
  }
}

}  // namespace gradwire
