#include "common/rpc/certificates.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// A file for TLS, and how OpenSSL takes it.
struct File {
  const char* option;
  const std::string& path;
  std::function<bool(SSL_CTX* context, const char* path)> take;
};

// A key with a passphrase would ask for it on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

std::string FirstError() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return reason == nullptr ? "OpenSSL cannot read it" : reason;
}

absl::Status Take(const File& file, SSL_CTX* context) {
  if (file.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.option, ": got none, expected --tls-cert, --tls-key and --tls-ca together"));
  }
  std::ifstream stream(file.path);
  if (stream) stream.peek();
  if (!stream.is_open() || stream.bad()) {
    return absl::NotFoundError(absl::StrCat(file.option, ": cannot read '", file.path, "'"));
  }
  ERR_clear_error();
  if (file.take(context, file.path.c_str())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.option, ": cannot use '", file.path, "': ", FirstError()));
}

absl::Status CheckDates(const std::string& path, const X509* certificate) {
  const bool has_begun = X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0;
  const bool has_ended = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
  if (has_begun && !has_ended) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--tls-cert: the certificate in '", path, "' ",
                                                 has_ended ? "has ended" : "is not valid yet",
                                                 ", by this host's clock"));
}

}  // namespace

absl::StatusOr<TlsContext> ReadCertificates(const SecurityOptions& options) {
  TlsContext context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
  if (context == nullptr) return absl::InternalError(FirstError());
  SSL_CTX_set_default_passwd_cb(context.get(), NoPassphrase);
  const File files[] = {{"--tls-cert", options.tls_cert,
                         [](SSL_CTX* c, const char* path) {
                           return SSL_CTX_use_certificate_chain_file(c, path) == 1;
                         }},
                        {"--tls-key", options.tls_key,
                         [](SSL_CTX* c, const char* path) {
                           return SSL_CTX_use_PrivateKey_file(c, path, SSL_FILETYPE_PEM) == 1;
                         }},
                        {"--tls-ca", options.tls_ca, [](SSL_CTX* c, const char* path) {
                           return SSL_CTX_load_verify_locations(c, path, nullptr) == 1;
                         }}};
  for (const File& file : files) {
    if (absl::Status status = Take(file, context.get()); !status.ok()) return status;
  }
  const absl::Status dates = CheckDates(options.tls_cert, SSL_CTX_get0_certificate(context.get()));
  if (!dates.ok()) return dates;
  return context;
}

absl::Status CheckCertificates(const SecurityOptions& options) {
  return ReadCertificates(options).status();
}

}  // namespace gradwire
