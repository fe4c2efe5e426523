#ifndef GRADWIRE_COMMON_RPC_CERTIFICATES_H_
#define GRADWIRE_COMMON_RPC_CERTIFICATES_H_

#include "absl/status/status.h"
#include "common/options/security_options.h"

namespace gradwire {

// Whether TLS can be spoken with the files of `options`, all of which are wanted. gRPC itself would
// say nothing, and refuse every connection.
//   InvalidArgument  one is not given, or is not what it should be, the certificate has ended or
//                    is not valid yet, or the key is another one's
//   NotFound         one cannot be read
absl::Status CheckCertificates(const SecurityOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CERTIFICATES_H_
