// chunk_fuzzer: libFuzzer over ViolatedProperty. Needs no files: now and then it
// starts again from a seed.
//
//   cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DGRADWIRE_FUZZ=ON
//   cmake --build build/fuzz --target chunk_fuzzer
//   build/fuzz/bin/chunk_fuzzer -max_total_time=300

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/chunk_properties.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int random) {
  static const auto* const seeds = new std::vector<std::string>(gradwire::SeedInputs());
  const std::string& seed = (*seeds)[random / 64 % seeds->size()];
  if (random % 64 == 0 && seed.size() <= max_size) {
    std::memcpy(data, seed.data(), seed.size());
    size = seed.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string violated =
      gradwire::ViolatedProperty({reinterpret_cast<const char*>(data), size});
  if (violated.empty()) return 0;
  std::fprintf(stderr, "violated: %s\n", violated.c_str());
  std::abort();
}
