// What the fuzzer runs, on its seeds and on each of them with one byte changed, so
// that every run of the tests covers it.

#include "tests/fuzz/chunk_properties.h"

#include <gtest/gtest.h>

namespace gradwire {
namespace {

TEST(ChunkPropertiesTest, ViolatedProperty_Seeds_None) {
  for (const std::string& seed : SeedInputs()) EXPECT_EQ(ViolatedProperty(seed), "");
}

TEST(ChunkPropertiesTest, ViolatedProperty_SeedsWithAByteChanged_None) {
  for (const std::string& seed : SeedInputs()) {
    for (size_t i = 0; i < seed.size(); ++i) {
      for (const int change : {1, 2, 0x80, 0xff}) {
        std::string input = seed;
        input[i] = static_cast<char>(input[i] ^ change);
        ASSERT_EQ(ViolatedProperty(input), "") << "byte " << i;
      }
    }
  }
}

TEST(ChunkPropertiesTest, ViolatedProperty_SeedsCutShort_None) {
  for (const std::string& seed : SeedInputs()) {
    for (size_t size = 0; size < seed.size(); ++size) {
      ASSERT_EQ(ViolatedProperty(seed.substr(0, size)), "") << size;
    }
  }
}

}  // namespace
}  // namespace gradwire
