#include "common/options/security_options.h"

#include "common/options/option_parser.h"

namespace gradwire {

bool WantsTls(const SecurityOptions& options) {
  return !options.tls_cert.empty() || !options.tls_key.empty() || !options.tls_ca.empty();
}

bool EncryptsPages(const SecurityOptions& options) {
  return WantsTls(options) && !options.plain_http;
}

bool MayBePublic(const SecurityOptions& options) { return WantsTls(options) || options.insecure; }

void AddSecurityOptions(SecurityOptions* options, OptionParser* parser) {
  parser->Group("Security");
  parser->Add("token-file", "FILE", "a secret that all calls of the run carry, the same everywhere",
              Text(&options->token_file), Agreement::kCompared);
  parser->Add("tls-cert", "FILE",
              "encrypt all calls: this host's certificate (PEM), with the names and addresses by "
              "which others reach it; read again when it changes",
              Text(&options->tls_cert));
  parser->Add("tls-key", "FILE", "the certificate's key", Text(&options->tls_key));
  parser->Add("tls-ca", "FILE", "the CA that has signed the certificates of all in the run",
              Text(&options->tls_ca));
  parser->Add("plain-http", "true|false",
              "with --tls-cert: pages and metrics are not encrypted, and ask for no certificate",
              Switch(&options->plain_http));
  parser->Add("insecure", "true|false",
              "without --tls-cert: listen also where anybody could connect, beyond this host and "
              "private networks",
              Switch(&options->insecure));
}

}  // namespace gradwire
