#include "tests/fuzz/input_reader.h"

#include <algorithm>
#include <iterator>

namespace gradwire {

uint8_t InputReader::Byte() {
  if (left_.empty()) return 0;
  const auto byte = static_cast<uint8_t>(left_.front());
  left_.remove_prefix(1);
  return byte;
}

uint64_t InputReader::Below(uint64_t count) {
  uint64_t number = Byte();
  if (count > 256) number = number << 8 | Byte();
  return number % count;
}

uint64_t InputReader::Number() {
  static constexpr uint64_t kEdges[] = {
      0x7f,       0x80,       0xff,       0xffff,          0x10000,        0x7fffffff,
      0x80000000, 0xffffffff, 1ull << 38, 1ull << 63,      ~0ull >> 1,     ~0ull,
      ~0ull - 1,  1ull << 32, 4ull << 20, 0x7ff0ull << 48, 0xfff8ull << 48};
  const uint8_t choice = Byte();
  if (choice < 0xd0) return choice % 16;
  if (choice < 0xe0) return Byte();
  return kEdges[choice % std::size(kEdges)];
}

std::string InputReader::Bytes() {
  const size_t wanted = Byte();
  const size_t size = std::min(wanted, left_.size());
  const std::string bytes(left_.substr(0, size));
  left_.remove_prefix(size);
  return bytes;
}

std::string InputReader::Text() {
  std::string text = Bytes();
  for (char& byte : text) byte = static_cast<char>(byte & 0x7f);
  return text;
}

std::string InputReader::Rest() {
  const std::string rest(left_);
  left_ = "";
  return rest;
}

}  // namespace gradwire
