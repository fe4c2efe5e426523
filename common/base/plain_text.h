#ifndef GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
#define GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// For words that others have sent, and that people read.

// With "\x1b" for each control character, so that nobody forges a line of the log or has a
// terminal do anything. The rest, UTF-8 too, stays.
std::string WithoutControls(absl::string_view text);

// At most `most` bytes of it, whole characters of UTF-8, and "…" if that is not all.
std::string Shortened(absl::string_view text, size_t most);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
