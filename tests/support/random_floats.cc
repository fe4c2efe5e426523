#include "tests/support/random_floats.h"

namespace gradwire::testing {

std::vector<float> RandomFloats(size_t count, std::mt19937* random, float std_dev) {
  std::normal_distribution<float> normal(0, std_dev);
  std::vector<float> values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

std::vector<float> RandomFloats(size_t count, uint32_t seed, float std_dev) {
  std::mt19937 random(seed);
  return RandomFloats(count, &random, std_dev);
}

std::string RandomFloatBytes(size_t bytes, std::mt19937* random) {
  const std::vector<float> values = RandomFloats((bytes + 3) / sizeof(float), random);
  return std::string(reinterpret_cast<const char*>(values.data()), bytes);
}

}  // namespace gradwire::testing
