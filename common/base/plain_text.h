#ifndef GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
#define GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// For words from other processes that people read.

// Replaces each control character by "\x1b" and the like, so that no process can forge a line of
// the log or control a terminal. Other characters, including UTF-8, stay.
std::string WithoutControls(absl::string_view text);

// Returns at most `most` bytes of it, whole UTF-8 characters, with "…" if it was shortened.
std::string Shortened(absl::string_view text, size_t most);

// Returns the candidate that `word` most probably means; "" if none is near. Near means a small
// optimal string alignment distance (insertions, deletions, replacements and swaps of neighbors),
// or that one is the beginning of the other. Case, '-' and '_' are ignored.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

// Returns "; did you mean PREFIXcandidate?", or "" if none is near.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates,
                       absl::string_view prefix);

// Returns "expected one of a, b, c; did you mean b?" for a message about a `word` that is not in
// `names`, which must not be empty.
std::string ExpectedOneOf(const std::vector<std::string>& names, absl::string_view word);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_PLAIN_TEXT_H_
