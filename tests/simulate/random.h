#ifndef GRADWIRE_TESTS_SIMULATE_RANDOM_H_
#define GRADWIRE_TESTS_SIMULATE_RANDOM_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace gradwire::simulate {

// The one source of all that is left to chance in a simulation: the same seed, the same run.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  // 0 … n - 1.
  uint64_t Below(uint64_t n) { return engine_() % n; }
  int Between(int least, int most) {
    return least + static_cast<int>(Below(static_cast<uint64_t>(most - least) + 1));
  }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  absl::Duration Between(absl::Duration least, absl::Duration most) {
    const auto span = static_cast<uint64_t>(absl::ToInt64Microseconds(most - least));
    return least + absl::Microseconds(static_cast<int64_t>(Below(span + 1)));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace gradwire::simulate

#endif  // GRADWIRE_TESTS_SIMULATE_RANDOM_H_
