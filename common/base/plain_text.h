#ifndef GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
#define GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// For words that others have sent, and that people read.

// With "\x1b" for each control character, so that nobody forges a line of the log or has a
// terminal do anything. The rest, UTF-8 too, stays.
std::string WithoutControls(absl::string_view text);

// At most `most` bytes of it, whole characters of UTF-8, and "…" if that is not all.
std::string Shortened(absl::string_view text, size_t most);

// The candidate that `word` most probably was meant to be; "" if none is near.
// Near means a small optimal string alignment distance: few insertions, deletions,
// replacements and swaps of neighbours; or that one is the beginning of the other. Case,
// '-' and '_' do not count.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

// "; did you mean PREFIXcandidate?", or "" if none is near.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates,
                       absl::string_view prefix);

// "expected one of a, b, c; did you mean b?": for the message about a `word` that is none of
// `names`, which are not empty.
std::string ExpectedOneOf(const std::vector<std::string>& names, absl::string_view word);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
