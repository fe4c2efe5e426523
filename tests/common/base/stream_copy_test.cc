#include "common/base/stream_copy.h"

#include <gtest/gtest.h>

#include <string>

namespace gradwire {
namespace {

TEST(StreamCopy, AnyAlignmentAndSize_CopiesTheseBytesAndNoOther) {
  std::string from(200, ' ');
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i + 1);
  for (size_t begin = 0; begin < 17; ++begin) {
    for (size_t offset = 0; offset < 17; ++offset) {
      for (size_t bytes = 0; bytes < 100; ++bytes) {
        std::string to(200, '\0'), expected = to;
        expected.replace(offset, bytes, from, begin, bytes);
        StreamCopy(from.data() + begin, bytes, &to[offset]);
        StreamFence();
        ASSERT_EQ(to, expected) << begin << " " << offset << " " << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace gradwire
