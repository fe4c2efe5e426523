#ifndef GRADWIRE_TESTS_FUZZ_MUTATOR_H_
#define GRADWIRE_TESTS_FUZZ_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gradwire {

// Changes inputs at random, the same way with the same seed: bytes are flipped, put in, taken out,
// repeated, and taken from another input.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // One of `inputs`, of which there is one at least, with one to four changes.
  std::string Next(const std::vector<std::string>& inputs);

 private:
  size_t Below(size_t count) { return random_() % count; }
  void Change(const std::string& other, std::string* input);

  std::mt19937_64 random_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_MUTATOR_H_
