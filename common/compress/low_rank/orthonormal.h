#ifndef GRADWIRE_COMMON_COMPRESS_LOW_RANK_ORTHONORMAL_H_
#define GRADWIRE_COMMON_COMPRESS_LOW_RANK_ORTHONORMAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/types/span.h"

namespace gradwire {

// Fills a vector in place of number `index`, which depends on those before it; another one in each
// `attempt`, which are counted from 0.
using DrawVector = std::function<void(size_t index, int attempt, absl::Span<float> vector)>;

// Makes `vectors`, of `length` elements one behind the other, all of them finite, orthogonal to
// each other and of length 1: modified Gram-Schmidt, each vector twice (Giraud and Langou 2002).
// One that depends on those before it, or is zero, is drawn; with a null `draw`, or if some
// attempts change nothing, it becomes zero. The bits are the same on every processor.
void Orthonormalize(absl::Span<float> vectors, uint64_t length, const DrawVector& draw);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_LOW_RANK_ORTHONORMAL_H_
