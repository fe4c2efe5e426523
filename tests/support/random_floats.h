#ifndef GRADWIRE_TESTS_SUPPORT_RANDOM_FLOATS_H_
#define GRADWIRE_TESTS_SUPPORT_RANDOM_FLOATS_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gradwire::testing {

// Normally distributed around 0. Optimized, unlike the test programs themselves: a test with
// millions of values takes a tenth of the time.
std::vector<float> RandomFloats(size_t count, std::mt19937* random, float std_dev = 1);
std::vector<float> RandomFloats(size_t count, uint32_t seed, float std_dev = 1);

// The first `bytes` bytes of such values with deviation 1.
std::string RandomFloatBytes(size_t bytes, std::mt19937* random);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_RANDOM_FLOATS_H_
