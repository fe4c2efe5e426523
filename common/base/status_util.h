#ifndef GRADWIRE_COMMON_BASE_STATUS_UTIL_H_
#define GRADWIRE_COMMON_BASE_STATUS_UTIL_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// The only place where statuses are converted. Both types use the same numbers.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Returns `status` with "context: " before its message; OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// InvalidArgument: "`what`: got `got`, expected `expected`".
absl::Status Unexpected(absl::string_view what, absl::string_view got, absl::string_view expected);

// Exit codes of every program (docs/output.md).
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitTryAgain = 75;  // EX_TEMPFAIL
// InvalidArgument, AlreadyExists, NotFound, OutOfRange (a wrong option, file or peer) → 2;
// Unavailable (coordinator out of reach) → 75; OK → 0; all others → 1.
int ExitCode(const absl::Status& status);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_STATUS_UTIL_H_
