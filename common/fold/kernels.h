#ifndef GRADWIRE_COMMON_FOLD_KERNELS_H_
#define GRADWIRE_COMMON_FOLD_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// The arithmetic of one type on the wire, over contiguous memory. Byte pointers need no alignment,
// and outputs must not overlap inputs. Sums are computed in float32; results are rounded to the
// type on the wire once, to nearest, ties to even. Functions that round return true if a finite
// value became infinite.
struct WireKernels {
  size_t element_bytes;
  // out[i] = ((terms[0][i] + terms[1][i]) + …) × scale; all with the type on the wire.
  bool (*fold)(absl::Span<const uint8_t* const> terms, size_t count, float scale, uint8_t* out);
  // out[i] = (a[i] + b[i]) × scale; a and out with the type on the wire.
  bool (*add_scaled)(const uint8_t* a, const float* b, size_t count, float scale, uint8_t* out);
  bool (*narrow)(const float* in, size_t count, uint8_t* out);
  void (*widen)(const uint8_t* in, size_t count, float* out);
};

// One instruction set. All sets give the same bits.
struct KernelSet {
  const char* name;  // "avx512", "avx2" or "baseline"
  WireKernels float32;
  WireKernels bfloat16;
  WireKernels float16;

  // residual[i] += values[i]; out[i] is the nearest integer to residual[i] / scale, ties to even,
  // from -127 to 127; residual[i] becomes the remainder. Returns the scale: the largest magnitude /
  // 127; 0 if that is below 1e-35 (everything remains); NaN if a value is not finite, and then
  // `out` and `residual` become 0.
  float (*encode_int8)(const float* values, size_t count, float* residual, int8_t* out);
  // out[i] = in[i] × scale.
  void (*decode_int8)(const int8_t* in, size_t count, float scale, float* out);

  // Returns the sum of a[i] × b[i], in float32: 32 sums of every 32nd product, then summed in
  // pairs.
  float (*dot)(const float* a, const float* b, size_t count);
  // out[i] += in[i] × factor, rounded twice.
  void (*add_multiple)(const float* in, size_t count, float factor, float* out);

  // `dtype` is FLOAT32, BFLOAT16 or FLOAT16.
  const WireKernels& For(v1::DType dtype) const;
};

// Returns the sets that this processor supports, best first.
absl::Span<const KernelSet> SupportedKernels();
// Returns the set in use: the first of these, unless another one was selected.
const KernelSet& KernelsInUse();
// Selects a set. Must be called before any computation.
void UseKernels(const KernelSet& set);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_FOLD_KERNELS_H_
