#include "common/wire/xxh3.h"

#include <atomic>

namespace gradwire {
namespace {

std::atomic<const Xxh3Kernel*>& Xxh3Chosen() {
  static std::atomic<const Xxh3Kernel*> chosen{Xxh3Kernels().front()};
  return chosen;
}

}  // namespace

std::vector<const Xxh3Kernel*> Xxh3Kernels() {
  std::vector<const Xxh3Kernel*> kernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&kXxh3Avx512);
  if (__builtin_cpu_supports("avx2")) kernels.push_back(&kXxh3Avx2);
#endif
  kernels.push_back(&kXxh3Baseline);
  return kernels;
}

const Xxh3Kernel& Xxh3InUse() { return *Xxh3Chosen(); }

void UseXxh3(const Xxh3Kernel& kernel) { Xxh3Chosen() = &kernel; }

}  // namespace gradwire
