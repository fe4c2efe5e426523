#ifndef GRADWIRE_COMMON_BASE_TOKEN_H_
#define GRADWIRE_COMMON_BASE_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The secret that the processes of a run share: 16 to 1024 ASCII characters without white space.

// Reads the token from a file, without trailing white space. Logs a warning if all users of this
// host can read the file.
//   NotFound         it cannot be read
//   InvalidArgument  its content is not a token; the message does not show the content
absl::StatusOr<std::string> ReadToken(const std::string& path);

// Returns a new token: 256 random bits, as 64 digits.
std::string MakeToken();

// Returns whether they are equal, in a time that does not depend on where they differ.
bool IsSameToken(absl::string_view said, absl::string_view expected);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_TOKEN_H_
