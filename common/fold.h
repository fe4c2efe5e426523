#ifndef GRADWIRE_COMMON_FOLD_H_
#define GRADWIRE_COMMON_FOLD_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/chunk.h"

namespace gradwire {

// The fold is the contract: out[i] = (((t₀[i] + t₁[i]) + t₂[i]) + …) × (1/W),
// in float32, where t_r is the term of rank r and W = terms.size(). The result
// depends on nothing else: not on arrival, pieces, alignment or instruction set.
//
// Every term has out.size() float32 elements, little endian, in pieces that may
// be unaligned and may split an element. One pass over all terms.
void Fold(absl::Span<const Pieces> terms, absl::Span<float> out);

// out[i] = (a[i] + b[i]) × scale; `a` in pieces, as above. For ring hops, where
// `a` is what the left neighbour sent. scale 1 is exact.
void AddScaled(const Pieces& a, const float* b, float scale, absl::Span<float> out);

// The instruction set in use: "avx512", "avx2" or "baseline".
absl::string_view FoldInstructionSet();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_H_
