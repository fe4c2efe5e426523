#ifndef GRADWIRE_COMMON_FOLD_FOLD_H_
#define GRADWIRE_COMMON_FOLD_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/fold/blocks.h"
#include "common/wire/chunk.h"

namespace gradwire {

// Conversion between float32 and the types on the wire: FLOAT32 (a copy), BFLOAT16 and FLOAT16. The
// same bits on every processor.

// Rounds `values` to the type on the wire, to nearest, ties to even; keeps subnormals. NaN stays
// NaN (quiet, with its sign and the upper bits of its payload). `out` has values.size() elements,
// needs no alignment, and must not overlap. Returns true if a finite value became infinite: from
// 65520 on in FLOAT16, and from about 3.396e38 on in BFLOAT16.
bool Narrow(absl::Span<const float> values, v1::DType dtype, uint8_t* out);

// Returns the exact values of out.size() elements; pieces may be unaligned and may split an
// element. A signaling NaN of FLOAT16 becomes quiet.
void Widen(const ByteSpans& pieces, v1::DType dtype, absl::Span<float> out);

// The fold is the contract: out[i] = (((t_s[i] + t_{s+1}[i]) + t_{s+2}[i]) + …) × (1/W), in
// float32, where t_r is the term of rank r mod W, W = terms.size(), and s the first rank of the
// element's block (see FoldBlocks). The result depends on nothing else, such as order of arrival,
// pieces, alignment or instruction set.
//
// Terms are of one type on the wire (FLOAT32, BFLOAT16 or FLOAT16), little endian, by rank, in
// pieces that may be unaligned and may split an element. They are widened to float32 exactly, and
// the result is rounded to that type once. `mean` has the size of a term, needs no alignment, and
// must not overlap the terms. `ranges` come from FoldBlocks; only their lengths and first ranks are
// used. One pass over all terms. Returns true if a finite mean became infinite by rounding.
bool Fold(absl::Span<const ByteSpans> terms, v1::DType dtype, absl::Span<const FoldRange> ranges,
          absl::Span<uint8_t> mean);

// The mean with the roundings of a ring: t_s is rounded to `dtype`, and so is each sum, because it
// would be sent to the next rank; the last one after × (1/W). `terms` are float32, by rank, and as
// long as all `ranges`, which are in float32. `mean` has as many elements of `dtype`, needs no
// alignment, and must not overlap the terms. Returns a bit for each rank, r mod 64, whose
// addition made a finite value infinite.
uint64_t FoldByHops(absl::Span<const float* const> terms, v1::DType dtype,
                    absl::Span<const FoldRange> ranges, absl::Span<uint8_t> mean);

// out[i] = (a[i] + b[i]) × scale, rounded once; `a`, in pieces, and `out` have the type on the
// wire, as above, `b` is float32. For ring hops, where `a` comes from the left neighbor. A scale of
// 1 is exact. Returns as Fold.
bool AddScaled(const ByteSpans& a, v1::DType dtype, const float* b, float scale,
               absl::Span<uint8_t> out);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_FOLD_H_
