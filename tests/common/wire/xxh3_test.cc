#include "common/wire/xxh3.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>

namespace gradwire {
namespace {

std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * i >> 3);
  return bytes;
}

TEST(Xxh3, Whole_EverySetOfInstructions_IsTheLibrarys) {
  for (const Xxh3Kernel* kernel : Xxh3Kernels()) {
    for (const size_t size : {0, 1, 16, 100, 240, 241, 1024, 65537}) {
      const std::string bytes = Bytes(size);
      EXPECT_EQ(kernel->whole(bytes.data(), size), XXH3_64bits(bytes.data(), size))
          << kernel->name << ", " << size << " bytes";
    }
  }
}

TEST(Xxh3, Update_OddPieces_AsTheWhole) {
  const std::string bytes = Bytes(70001);
  for (const Xxh3Kernel* kernel : Xxh3Kernels()) {
    Xxh3State state;
    kernel->begin(&state);
    size_t at = 0;
    for (const size_t size : {1, 69, 0, 29930, 40001}) {
      kernel->update(&state, bytes.data() + at, size);
      at += size;
    }
    ASSERT_EQ(at, bytes.size());
    EXPECT_EQ(kernel->end(&state), XXH3_64bits(bytes.data(), bytes.size())) << kernel->name;
  }
}

}  // namespace
}  // namespace gradwire
