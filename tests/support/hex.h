#ifndef GRADWIRE_TESTS_SUPPORT_HEX_H_
#define GRADWIRE_TESTS_SUPPORT_HEX_H_

#include <string>

namespace gradwire::testing {

// The bytes of "00ff". (Abseil's function for it has another form in newer versions.)
inline std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_HEX_H_
