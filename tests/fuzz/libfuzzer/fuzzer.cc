// NAME_fuzzer: libFuzzer over the target NAME, which is GRADWIRE_FUZZED in code. Needs no files:
// now and then it starts again from a seed, or from what is kept in the target's corpus.
//
//   cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DGRADWIRE_FUZZ=ON
//   cmake --build build/fuzz --target session_fuzzer
//   build/fuzz/bin/session_fuzzer -max_total_time=300

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/fuzz_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

#define GRADWIRE_JOIN(a, b) a##b
#define GRADWIRE_VIOLATED_BY(Name) GRADWIRE_JOIN(ViolatedBy, Name)
#define GRADWIRE_SEEDS(Name) GRADWIRE_JOIN(Name, Seeds)

namespace gradwire {
std::string GRADWIRE_VIOLATED_BY(GRADWIRE_FUZZED)(absl::string_view input);
std::vector<std::string> GRADWIRE_SEEDS(GRADWIRE_FUZZED)();

namespace {

const FuzzTarget& Target() {
  static const auto* const target =
      new FuzzTarget{GRADWIRE_FUZZED_NAME, &GRADWIRE_VIOLATED_BY(GRADWIRE_FUZZED),
                     &GRADWIRE_SEEDS(GRADWIRE_FUZZED), 0};
  return *target;
}

const std::vector<std::string>& Inputs() {
  static const auto* const inputs = new std::vector<std::string>(InputsOf(Target()));
  return *inputs;
}

}  // namespace
}  // namespace gradwire

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int random) {
  const std::vector<std::string>& inputs = gradwire::Inputs();
  const std::string& input = inputs[random / 64 % inputs.size()];
  if (random % 64 == 0 && input.size() <= max_size) {
    std::memcpy(data, input.data(), input.size());
    size = input.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string violated =
      gradwire::Try(gradwire::Target(), std::string(reinterpret_cast<const char*>(data), size));
  if (violated.empty()) return 0;
  std::fprintf(stderr, "violated: %s\n", violated.c_str());
  std::abort();
}
