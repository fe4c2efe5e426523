// Compiled with -ffp-contract=off: only MultiplyAdd fuses, where torch does.
#include "worker/learning/fused_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/stream_copy.h"

namespace gradwire {
namespace {

// A tile of all arrays stays in the first cache from its first loop to its last.
constexpr size_t kTile = 512;

#define GRADWIRE_INLINE inline __attribute__((always_inline))

// a × b + c, as torch computes tensor.add(other, alpha) with this instruction set.
template <bool kFused>
GRADWIRE_INLINE float MultiplyAdd(float a, float b, float c) {
  return kFused ? __builtin_fmaf(a, b, c) : a * b + c;
}

// out[i] = a[i] × factor + b[i]
template <bool kFused>
GRADWIRE_INLINE void AddMultiple(const float* a, float factor, const float* b, size_t count,
                                 float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = MultiplyAdd<kFused>(a[i], factor, b[i]);
}

// Bypasses the caches: a saved copy is rarely read.
GRADWIRE_INLINE void SaveTile(const float* from, size_t count, float* to) {
  StreamCopy(from, count * sizeof(float), to);
}

// torch::optim::SGD, without dampening.
template <bool kFused>
GRADWIRE_INLINE void SgdTile(const FusedRule& rule, double rate, bool first,
                             const FusedRange& tile) {
  float decayed[kTile], ahead[kTile];
  const auto momentum = static_cast<float>(rule.momentum);
  const float* change = tile.gradient;
  if (rule.weight_decay != 0) {
    AddMultiple<kFused>(tile.parameters, static_cast<float>(rule.weight_decay), change, tile.count,
                        decayed);
    change = decayed;
  }
  if (rule.momentum != 0) {
    const float* old_moment = tile.old_moments[0];
    float* moment = tile.new_moments[0];
    if (first) {
      std::memcpy(moment, change, tile.count * sizeof(float));
    } else {
      for (size_t i = 0; i < tile.count; ++i) moment[i] = old_moment[i] * momentum + change[i];
    }
    if (rule.nesterov) AddMultiple<kFused>(moment, momentum, change, tile.count, ahead);
    change = rule.nesterov ? ahead : moment;
  }
  AddMultiple<kFused>(change, static_cast<float>(-1 * rate), tile.parameters, tile.count,
                      tile.parameters);
}

// The numbers of a step of Adam, in the order in which torch rounds them.
struct AdamNumbers {
  AdamNumbers(const FusedRule& rule, double rate, int64_t step)
      : shrink(static_cast<float>(1 - rate * rule.weight_decay)),
        decay(static_cast<float>(rule.weight_decay)),
        beta1(static_cast<float>(rule.beta1)),
        beta2(static_cast<float>(rule.beta2)),
        rest1(static_cast<float>(1 - rule.beta1)),
        rest2(static_cast<float>(1 - rule.beta2)),
        eps(static_cast<float>(rule.eps)),
        correction(
            static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(step))))),
        size(static_cast<float>(-(rate / (1 - std::pow(rule.beta1, static_cast<double>(step)))))) {}

  float shrink, decay, beta1, beta2, rest1, rest2, eps, correction, size;
};

// torch::optim::Adam and AdamW.
template <bool kFused>
GRADWIRE_INLINE void AdamTile(const FusedRule& rule, const AdamNumbers& number, bool first,
                              const FusedRange& tile) {
  float decayed[kTile];
  float* const parameters = tile.parameters;
  float* const mean = tile.new_moments[0];
  float* const square = tile.new_moments[1];
  const float* gradient = tile.gradient;
  if (rule.weight_decay != 0 && rule.decoupled) {
    for (size_t i = 0; i < tile.count; ++i) parameters[i] = parameters[i] * number.shrink;
  } else if (rule.weight_decay != 0) {
    AddMultiple<kFused>(parameters, number.decay, gradient, tile.count, decayed);
    gradient = decayed;
  }
  for (size_t i = 0; i < tile.count; ++i) {
    const float old = first ? 0.0f : tile.old_moments[0][i];
    mean[i] = MultiplyAdd<kFused>(gradient[i], number.rest1, old * number.beta1);
  }
  for (size_t i = 0; i < tile.count; ++i) {
    const float old = first ? 0.0f : tile.old_moments[1][i];
    square[i] = MultiplyAdd<kFused>(number.rest2 * gradient[i], gradient[i], old * number.beta2);
  }
  for (size_t i = 0; i < tile.count; ++i) {
    const float root = __builtin_sqrtf(square[i]) / number.correction + number.eps;
    parameters[i] = parameters[i] + number.size * mean[i] / root;
  }
}

FusedRange TileAt(const FusedRange& range, size_t at) {
  FusedRange tile;
  tile.count = std::min(kTile, range.count - at);
  tile.parameters = range.parameters + at;
  tile.saved = range.saved == nullptr ? nullptr : range.saved + at;
  tile.gradient = range.gradient + at;
  for (size_t i = 0; i < 2; ++i) {
    if (range.new_moments[i] == nullptr) continue;
    tile.new_moments[i] = range.new_moments[i] + at;
    tile.old_moments[i] = range.old_moments[i] + at;
  }
  return tile;
}

template <bool kFused>
GRADWIRE_INLINE void UpdateRange(const FusedRule& rule, double rate, int64_t step,
                                 const FusedRange& range) {
  const AdamNumbers number(rule, rate, step);
  for (size_t at = 0; at < range.count; at += kTile) {
    const FusedRange tile = TileAt(range, at);
    if (tile.saved != nullptr) SaveTile(tile.parameters, tile.count, tile.saved);
    if (rule.kind == FusedRule::Kind::kAdam) {
      AdamTile<kFused>(rule, number, step == 1, tile);
    } else {
      SgdTile<kFused>(rule, rate, step == 1, tile);
    }
  }
  StreamFence();  // after the streamed copies
}

void UpdateBaseline(const FusedRule& rule, double rate, int64_t step, const FusedRange& range) {
  UpdateRange<false>(rule, rate, step, range);
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) void UpdateAvx2(const FusedRule& rule, double rate,
                                                    int64_t step, const FusedRange& range) {
  UpdateRange<true>(rule, rate, step, range);
}

__attribute__((target("avx512f,avx512vl,avx2,fma"))) void UpdateAvx512(const FusedRule& rule,
                                                                       double rate, int64_t step,
                                                                       const FusedRange& range) {
  UpdateRange<true>(rule, rate, step, range);
}

#elif defined(__FP_FAST_FMAF)

void UpdateFused(const FusedRule& rule, double rate, int64_t step, const FusedRange& range) {
  UpdateRange<true>(rule, rate, step, range);
}

#endif

}  // namespace

std::vector<FusedKernel> FusedKernels() {
  std::vector<FusedKernel> kernels;
#if defined(__x86_64__)
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  if (fma && avx512) kernels.push_back(UpdateAvx512);
  if (fma) kernels.push_back(UpdateAvx2);
#elif defined(__FP_FAST_FMAF)
  kernels.push_back(UpdateFused);
#endif
  kernels.push_back(UpdateBaseline);
  return kernels;
}

}  // namespace gradwire
