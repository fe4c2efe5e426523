#ifndef GRADWIRE_COMMON_FOLD_FOLD_H_
#define GRADWIRE_COMMON_FOLD_FOLD_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/wire/chunk.h"

namespace gradwire {

// The fold is the contract: out[i] = (((t₀[i] + t₁[i]) + t₂[i]) + …) × (1/W),
// in float32, where t_r is the term of rank r and W = terms.size(). The result
// depends on nothing else: not on arrival, pieces, alignment or instruction set.
//
// Every term has out.size() float32 elements, little endian, in pieces that may
// be unaligned and may split an element. One pass over all terms.
void Fold(absl::Span<const Pieces> terms, absl::Span<float> out);

// The same for any element type on the wire (FLOAT32, BFLOAT16 or FLOAT16): terms
// are widened to float32 exactly, summed and scaled as above, and the result is
// rounded to the wire type once. `mean` has each term's size, a whole number of
// elements, needs no alignment, and does not overlap the terms. Returns true if
// a finite mean became infinite by rounding.
bool Fold(absl::Span<const Pieces> terms, v1::DType dtype, absl::Span<uint8_t> mean);

// out[i] = (a[i] + b[i]) × scale, rounded once; `a` in pieces and `out` in the
// wire type, as above, `b` with as many float32. For ring hops, where `a` is
// what the left neighbour sent. scale 1 is exact. Returns as Fold.
bool AddScaled(const Pieces& a, v1::DType dtype, const float* b, float scale,
               absl::Span<uint8_t> out);

// The instruction set in use: "avx512", "avx2" or "baseline".
absl::string_view FoldInstructionSet();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_FOLD_H_
