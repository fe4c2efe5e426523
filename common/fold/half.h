#ifndef GRADWIRE_COMMON_FOLD_HALF_H_
#define GRADWIRE_COMMON_FOLD_HALF_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/wire/chunk.h"

namespace gradwire {

// Between float32 and the element types of the wire: FLOAT32 (a copy), BFLOAT16
// and FLOAT16. The same bits on every processor.

// Rounds `values` to the wire type, to nearest, ties to even; subnormals are
// kept. NaN stays NaN (quiet, with its sign and the upper bits of its payload).
// `out` has values.size() elements, needs no alignment, and overlaps nothing.
// Returns true if a finite value became infinite: from 65520 on in FLOAT16, and
// from about 3.396e38 on in BFLOAT16.
bool Narrow(absl::Span<const float> values, v1::DType dtype, uint8_t* out);

// The exact values of out.size() elements, whose pieces may be unaligned and may
// split an element. A signalling NaN of FLOAT16 becomes quiet.
void Widen(const Pieces& pieces, v1::DType dtype, absl::Span<float> out);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_HALF_H_
