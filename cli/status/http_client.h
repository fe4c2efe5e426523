#ifndef GRADWIRE_CLI_STATUS_HTTP_CLIENT_H_
#define GRADWIRE_CLI_STATUS_HTTP_CLIENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gradwire {

// The body of `GET path` on `address`, "host:port". Blocks; any thread. Errors:
//   InvalidArgument     `address` is not of that form
//   Unavailable         nothing answers there; says why
//   DeadlineExceeded    the whole takes longer than `timeout` (but for the look-up of a name)
//   FailedPrecondition  the answer is not HTTP, ends too early, is longer than 64 MiB, or has
//                       another code than 200: says which
absl::StatusOr<std::string> HttpGet(absl::string_view address, absl::string_view path,
                                    absl::Duration timeout);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_STATUS_HTTP_CLIENT_H_
