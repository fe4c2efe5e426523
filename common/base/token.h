#ifndef GRADWIRE_COMMON_BASE_TOKEN_H_
#define GRADWIRE_COMMON_BASE_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The secret that those who take part in a run share: 16 to 1024 characters of ASCII, none of them
// white space.

// The token in a file, without the white space behind it. Warns in the log if all users of this
// host can read the file.
//   NotFound         it cannot be read
//   InvalidArgument  what stands there is no token; shows nothing of it
absl::StatusOr<std::string> ReadToken(const std::string& path);

// A new one: 256 random bits, as 64 digits.
std::string MakeToken();

// Whether they are equal; where they differ cannot be told from the time that it takes.
bool IsSameToken(absl::string_view said, absl::string_view expected);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_TOKEN_H_
