#include "tests/fuzz/mutator.h"

#include <algorithm>

namespace gradwire {

std::string Mutator::Next(const std::vector<std::string>& inputs) {
  std::string input = inputs[Below(inputs.size())];
  for (size_t changes = 1 + Below(4); changes > 0; --changes) {
    Change(inputs[Below(inputs.size())], &input);
  }
  return input;
}

void Mutator::Change(const std::string& other, std::string* input) {
  const size_t at = Below(input->size() + 1);
  const size_t count = std::min(1 + Below(8), input->size() - at);
  const auto byte = static_cast<char>(random_());
  switch (Below(6)) {
    case 0:
      if (count > 0) (*input)[at] = static_cast<char>((*input)[at] ^ (1 << Below(8)));
      return;
    case 1:
      if (count > 0) (*input)[at] = byte;
      return;
    case 2:
      input->insert(at, 1 + Below(4), byte);
      return;
    case 3:
      input->erase(at, count);
      return;
    case 4:
      input->insert(at, input->substr(at, count));
      return;
    default:
      if (other.empty()) return;
      input->insert(at, other.substr(Below(other.size()), 1 + Below(64)));
  }
}

}  // namespace gradwire
