#ifndef GRADWIRE_TESTS_FUZZ_INPUT_READER_H_
#define GRADWIRE_TESTS_FUZZ_INPUT_READER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// What a target makes of its input, taken from the front: a change of a byte changes one choice.
// Once the input is used up all is 0 and empty.
class InputReader {
 public:
  explicit InputReader(absl::string_view input) : left_(input) {}

  bool is_done() const { return left_.empty(); }
  uint8_t Byte();
  bool Flag() { return (Byte() & 1) != 0; }
  // 0 to count - 1; `count` is at least 1.
  uint64_t Below(uint64_t count);
  // Small ones mostly; and those at which arithmetic goes wrong.
  uint64_t Number();
  // At most 255 bytes, of ASCII.
  std::string Text();
  // The same, of anything.
  std::string Bytes();
  std::string Rest();

 private:
  absl::string_view left_;
};

}  // namespace gradwire

#endif  // GRADWIRE_TESTS_FUZZ_INPUT_READER_H_
