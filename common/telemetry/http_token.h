#ifndef GRADWIRE_COMMON_TELEMETRY_HTTP_TOKEN_H_
#define GRADWIRE_COMMON_TELEMETRY_HTTP_TOKEN_H_

#include "absl/strings/string_view.h"

namespace gradwire {

// Whether a request's header "Authorization" shows the run's token (common/base/token.h): as
// programs do, "Bearer TOKEN", or as browsers do, "Basic " and the Base64 of "NAME:TOKEN", with any
// name. RFC 6750, 2.1; RFC 7617, 2.
bool ShowsToken(absl::string_view authorization, absl::string_view token);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_TELEMETRY_HTTP_TOKEN_H_
