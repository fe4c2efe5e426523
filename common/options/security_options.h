#ifndef GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
#define GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

class OptionParser;

// How a program's calls are guarded; the same for all that take part in a run.
struct SecurityOptions {
  std::string token_file;  // empty: calls carry no token
  // PEM: a certificate with what stands between it and the CA, its key, and the CA of the run. All
  // or none; none: calls are not encrypted.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  bool plain_http = false;  // with TLS, pages may be served beyond this host, though not encrypted
  // In place of that file, for who makes the token. Not an option.
  std::string token;
};

// Whether any of the files for TLS is given.
bool WantsTls(const SecurityOptions& options);

// InvalidArgument if calls are to be encrypted and pages at `address` ("host:port"; "" and "off":
// none), which are not, would leave this host, unless `options` allow it.
absl::Status CheckPages(absl::string_view address, const SecurityOptions& options);

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
