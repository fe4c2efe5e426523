#include "common/options/security_options.h"

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/options/option_parser.h"

namespace gradwire {

bool WantsTls(const SecurityOptions& options) {
  return !options.tls_cert.empty() || !options.tls_key.empty() || !options.tls_ca.empty();
}

absl::Status CheckPages(absl::string_view address, const SecurityOptions& options) {
  if (!WantsTls(options) || options.plain_http) return absl::OkStatus();
  if (address.empty() || address == "off") return absl::OkStatus();
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok() || IsLoopback(parsed->host)) return parsed.status();
  return absl::InvalidArgumentError(
      absl::StrCat("--metrics: got '", address,
                   "' with --tls-cert, expected an address such as 127.0.0.1:9400, ",
                   "or off: pages are not encrypted (--plain-http true serves them all the same)"));
}

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser) {
  parser->Group("Security");
  parser->Add("token-file", "FILE", "a secret that all calls of the run carry, the same everywhere",
              Text(&options->token_file));
  parser->Add("tls-cert", "FILE",
              "encrypt all calls: this host's certificate (PEM), with the names and addresses by "
              "which others reach it; read again when it changes",
              Text(&options->tls_cert));
  parser->Add("tls-key", "FILE", "the certificate's key", Text(&options->tls_key));
  parser->Add("tls-ca", "FILE", "the CA that has signed the certificates of all in the run",
              Text(&options->tls_ca));
  parser->Add("plain-http", "true|false",
              "with --tls-cert: serve pages beyond this host, though they are not encrypted",
              Switch(&options->plain_http));
}

}  // namespace gradwire
