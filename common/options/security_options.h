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
  bool plain_http = false;  // with TLS, pages are not encrypted all the same
  bool insecure = false;    // without TLS, anybody may be able to reach what is served
  // In place of that file, for who makes the token. Not an option.
  std::string token;
};

// Whether any of the files for TLS is given.
bool WantsTls(const SecurityOptions& options);

// Whether pages and metrics are to be.
bool EncryptsPages(const SecurityOptions& options);
// Whether servers may be where anybody reaches them (common/rpc/reach.h).
bool MayBePublic(const SecurityOptions& options);

// Those of programs that take part in a run.
void AddSecurityOptions(SecurityOptions* options, OptionParser* parser);

class OptionParser;

// Adds --instructions.
void AddInstructionsOption(std::string* name, OptionParser* parser);

// Lets sums and checksums of this process use no newer instructions than those of the set `name`:
// "avx512", "avx2" or "baseline", or "" for the best that there are. InvalidArgument if the
// processor lacks them. Before anything is summed.
absl::Status UseInstructions(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
