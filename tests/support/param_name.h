#ifndef GRADWIRE_TESTS_SUPPORT_PARAM_NAME_H_
#define GRADWIRE_TESTS_SUPPORT_PARAM_NAME_H_

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace gradwire::testing {

// `text` as a part of a test's name, in which there are letters, digits and "_" only.
inline std::string ParamName(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isalnum(c); }, '_');
  return text;
}

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_PARAM_NAME_H_
