// Compiled with -ffp-contract=off: a fused multiply-add would round differently.
#include "common/fold/kernels.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gradwire {
namespace {

// Bit patterns of a float32.
constexpr int32_t kMagnitude = 0x7fffffff;         // all bits except the sign
constexpr int32_t kInfinity = 0x7f800000;          // above it: NaN
constexpr int32_t kQuiet = 0x00400000;             // set in a quiet NaN
constexpr int32_t kBfloat16Overflow = 0x7f7f8000;  // the smallest that rounds to infinity
constexpr int32_t kFloat16Overflow = 0x477ff000;   // the same: 65520
constexpr int32_t kFloat16Normal = 0x38800000;     // 2^-14
constexpr int32_t kOneHalf = 0x3f000000;           // 0.5

constexpr float kRounder = 12582912;  // 1.5 × 2^23
constexpr float kLeastInt8 = 1e-35f;  // below it, 127 / x could be infinite
constexpr size_t kDotSums = 32;       // for every instruction set, otherwise the bits would differ

using Terms = absl::Span<const uint8_t* const>;

namespace baseline {
#define KERNEL_TARGET
#define KERNEL_LANES 4
#include "common/fold/kernels.inc"
#undef KERNEL_LANES
#undef KERNEL_TARGET
}  // namespace baseline

#if defined(__x86_64__)

namespace avx2 {
#define KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define KERNEL_LANES 8
#include "common/fold/kernels.inc"
#undef KERNEL_LANES
#undef KERNEL_TARGET
}  // namespace avx2

namespace avx512 {
#if defined(__clang__)
#define KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#else
#define KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")))
#endif
#define KERNEL_LANES 16
#include "common/fold/kernels.inc"
#undef KERNEL_LANES
#undef KERNEL_TARGET
}  // namespace avx512

#endif

#if defined(__x86_64__)

// Some compilers' __builtin_cpu_supports does not support f16c.
bool HasF16c() {
  unsigned int eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

#endif

std::vector<KernelSet> FindSupported() {
  std::vector<KernelSet> sets;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    sets.push_back(avx512::SetOf("avx512"));
  }
  if (__builtin_cpu_supports("avx2") && HasF16c()) {
    sets.push_back(avx2::SetOf("avx2"));
  }
#endif
  sets.push_back(baseline::SetOf("baseline"));
  return sets;
}

std::atomic<const KernelSet*>& InUse() {
  static std::atomic<const KernelSet*> in_use{&SupportedKernels().front()};
  return in_use;
}

}  // namespace

const WireKernels& KernelSet::For(v1::DType dtype) const {
  if (dtype == v1::DTYPE_BFLOAT16) return bfloat16;
  if (dtype == v1::DTYPE_FLOAT16) return float16;
  return float32;
}

absl::Span<const KernelSet> SupportedKernels() {
  static const std::vector<KernelSet>* const sets = new std::vector<KernelSet>(FindSupported());
  return *sets;
}

const KernelSet& KernelsInUse() { return *InUse(); }

void UseKernels(const KernelSet& set) { InUse() = &set; }

}  // namespace gradwire
