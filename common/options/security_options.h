#ifndef GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
#define GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire {

class OptionParser;

// How a program's calls are protected; the same for all processes of a run.
struct SecurityOptions {
  std::string token_file;  // empty: calls carry no token
  // PEM: certificate with the chain up to the CA, its key, and the run's CA. All three or none;
  // none: calls are not encrypted.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  bool plain_http = false;  // with TLS, pages are nevertheless not encrypted
  bool insecure = false;    // without TLS, any host may be able to connect
  // The token itself, for a process that creates it. Not an option.
  std::string token;
};

// Returns whether any of the TLS files is given.
bool WantsTls(const SecurityOptions& options);

// Returns whether pages and metrics are encrypted.
bool EncryptsPages(const SecurityOptions& options);
// Returns whether servers may listen on public addresses (common/rpc/reach.h).
bool MayBePublic(const SecurityOptions& options);

// Adds the options of programs that take part in a run.
void AddSecurityOptions(SecurityOptions* options, OptionParser* parser);

class OptionParser;

// Adds --instructions.
void AddInstructionsOption(std::string* name, OptionParser* parser);

// Limits sums and checksums of this process to the instruction set `name`: "avx512", "avx2" or
// "baseline", or "" for the best available. InvalidArgument if the processor lacks it. Must be
// called before the first sum.
absl::Status UseInstructions(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_SECURITY_OPTIONS_H_
