// The seeds of chunks with each byte changed, and cut short anywhere.

#include <gtest/gtest.h>

#include "tests/fuzz/fuzz_target.h"

namespace gradwire {
namespace {

TEST(ChunkTargetTest, ViolatedByChunk_SeedsWithAByteChanged_None) {
  for (const std::string& seed : ChunkSeeds()) {
    for (size_t i = 0; i < seed.size(); ++i) {
      for (const int change : {1, 2, 0x80, 0xff}) {
        std::string input = seed;
        input[i] = static_cast<char>(input[i] ^ change);
        ASSERT_EQ(ViolatedByChunk(input), "") << "byte " << i;
      }
    }
  }
}

TEST(ChunkTargetTest, ViolatedByChunk_SeedsCutShort_None) {
  for (const std::string& seed : ChunkSeeds()) {
    for (size_t size = 0; size < seed.size(); ++size) {
      ASSERT_EQ(ViolatedByChunk(seed.substr(0, size)), "") << size;
    }
  }
}

}  // namespace
}  // namespace gradwire
