#include "common/wire/xxh3.h"

namespace gradwire {

std::vector<const Xxh3Kernel*> Xxh3Kernels() {
  std::vector<const Xxh3Kernel*> kernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&kXxh3Avx512);
  if (__builtin_cpu_supports("avx2")) kernels.push_back(&kXxh3Avx2);
#endif
  kernels.push_back(&kXxh3Baseline);
  return kernels;
}

}  // namespace gradwire
