#ifndef GRADWIRE_COMMON_BASE_STREAM_COPY_H_
#define GRADWIRE_COMMON_BASE_STREAM_COPY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace gradwire {

// Copies `bytes` from `from` to `to`, which do not overlap, past the caches. For data that no
// process reads soon: its lines of `to` are not read first, and it drives no other data out. The
// stores may be seen late and in any order: call StreamFence before the copy is published to
// another thread.
inline void StreamCopy(const void* from, size_t bytes, void* to) {
  const auto* in = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
#ifdef __SSE2__
  constexpr size_t kStride = sizeof(__m128i);
  const size_t before =
      std::min(bytes, (kStride - reinterpret_cast<uintptr_t>(out) % kStride) % kStride);
  std::memcpy(out, in, before);
  const size_t end = before + (bytes - before) / kStride * kStride;
  for (size_t i = before; i < end; i += kStride) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
  }
  std::memcpy(out + end, in + end, bytes - end);
#else
  std::memcpy(out, in, bytes);
#endif
}

inline void StreamFence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_STREAM_COPY_H_
