#ifndef GRADWIRE_COMMON_FOLD_FOLD_H_
#define GRADWIRE_COMMON_FOLD_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/fold/blocks.h"
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
void Widen(const ByteSpans& pieces, v1::DType dtype, absl::Span<float> out);

// The fold is the contract: out[i] = (((t_s[i] + t_{s+1}[i]) + t_{s+2}[i]) + …) × (1/W),
// in float32, where t_r is the term of rank r mod W, W = terms.size(), and s the first
// rank of the element's block (see FoldBlocks). The result depends on nothing else: not on
// arrival, pieces, alignment or instruction set.
//
// Terms are of one type on the wire (FLOAT32, BFLOAT16 or FLOAT16), little endian, by rank,
// in pieces that may be unaligned and may split an element. They are widened to float32
// exactly, and the result is rounded to the wire type once. `mean` has each term's size,
// needs no alignment, and does not overlap the terms; `ranges` are those of FoldBlocks for
// it, of which only the lengths and the first ranks count. One pass over all terms.
// Returns true if a finite mean became infinite by rounding.
bool Fold(absl::Span<const ByteSpans> terms, v1::DType dtype, absl::Span<const FoldRange> ranges,
          absl::Span<uint8_t> mean);

// out[i] = (a[i] + b[i]) × scale, rounded once; `a` in pieces and `out` in the
// wire type, as above, `b` with as many float32. For ring hops, where `a` is
// what the left neighbour sent. scale 1 is exact. Returns as Fold.
bool AddScaled(const ByteSpans& a, v1::DType dtype, const float* b, float scale,
               absl::Span<uint8_t> out);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_FOLD_H_
