#ifndef GRADWIRE_COMMON_WIRE_XXH3_H_
#define GRADWIRE_COMMON_WIRE_XXH3_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradwire {

// Memory for an XXH3_state_t.
struct alignas(64) Xxh3State {
  unsigned char bytes[640];
};

// XXH3_64bits with seed 0 of xxhash.h, compiled for one instruction set. All give the same values.
// (Debian's libxxhash supports only the oldest, with a quarter to half of the speed.)
struct Xxh3Kernel {
  const char* name;  // "avx512", "avx2" or "baseline"
  uint64_t (*whole)(const void* bytes, size_t size);
  // The same for bytes in pieces: begin, update for each, end.
  void (*begin)(Xxh3State* state);
  void (*update)(Xxh3State* state, const void* bytes, size_t size);
  uint64_t (*end)(const Xxh3State* state);
};

extern const Xxh3Kernel kXxh3Baseline;
#if defined(__x86_64__)
extern const Xxh3Kernel kXxh3Avx2;
extern const Xxh3Kernel kXxh3Avx512;
#endif

// Returns the kernels that this processor supports, fastest first; never empty.
std::vector<const Xxh3Kernel*> Xxh3Kernels();

// Returns the kernel of this process: the first of these, unless another one was selected.
const Xxh3Kernel& Xxh3InUse();
// Selects a kernel. Must be called before the first checksum.
void UseXxh3(const Xxh3Kernel& kernel);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_XXH3_H_
