#ifndef GRADWIRE_COMMON_RPC_CERTIFICATES_H_
#define GRADWIRE_COMMON_RPC_CERTIFICATES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/options/security_options.h"

struct ssl_ctx_st;

namespace gradwire {

// OpenSSL's, with a certificate, its key and a CA.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// One with the files of `options`, all of which are wanted. Errors: those of CheckCertificates.
absl::StatusOr<TlsContext> ReadCertificates(const SecurityOptions& options);

// Whether TLS can be spoken with the files of `options`, all of which are wanted. gRPC itself would
// say nothing, and refuse every connection.
//   InvalidArgument  one is not given, or is not what it should be, the certificate has ended or
//                    is not valid yet, or the key is another one's
//   NotFound         one cannot be read
absl::Status CheckCertificates(const SecurityOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CERTIFICATES_H_
