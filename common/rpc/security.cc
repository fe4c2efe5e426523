#include "common/rpc/security.h"

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"
#include "common/base/token.h"
#include "common/rpc/channel.h"

namespace gradwire {

namespace {

// A TLS file, and the OpenSSL function that loads it.
struct File {
  const char* option;
  const std::string& path;
  std::function<bool(SSL_CTX* context, const char* path)> take;
};

// A key with a passphrase would otherwise ask for it on the terminal.
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
                                                 has_ended ? "has expired" : "is not valid yet",
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

namespace {

namespace tls = grpc::experimental;
using Certificates = std::shared_ptr<tls::CertificateProviderInterface>;

constexpr unsigned kLookSeconds = 1;
constexpr char kTokenKey[] = "gradwire-token";
constexpr char kNoToken[] =
    "this run requires a token, and the call has none; expected the coordinator's --token-file";
constexpr char kWrongToken[] =
    "the call's token is not this run's; expected the coordinator's --token-file";

// Adds the token to each call. Neither this nor TokenJudge blocks, so gRPC needs no threads for it.
class TokenBearer : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenBearer(std::string token) : token_(std::move(token)) {}
  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return kTokenKey; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace(kTokenKey, token_);
    return grpc::Status::OK;
  }
  std::string DebugString() override { return kTokenKey; }

 private:
  const std::string token_;
};

// Returns the only ones with this token; also for channels without encryption. They are never
// destroyed: gRPC (1.51) starts threads for that, and waits up to a second for their end.
std::shared_ptr<grpc::CallCredentials> CredentialsOf(const std::string& token) {
  using Kept = std::map<std::string, std::shared_ptr<grpc::CallCredentials>>;
  static Mutex mutex;
  static auto* const kept = new Kept;
  MutexLock lock(&mutex);
  std::shared_ptr<grpc::CallCredentials>& credentials = (*kept)[token];
  if (credentials == nullptr) {
    credentials = tls::MetadataCredentialsFromPlugin(std::make_unique<TokenBearer>(token),
                                                     GRPC_SECURITY_NONE);
  }
  return credentials;
}

class TokenJudge : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenJudge(std::string token) : token_(std::move(token)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata* consumed,
                       OutputMetadata*) override {
    const auto said = metadata.find(kTokenKey);
    if (said == metadata.end()) return Refuse(kNoToken);
    if (!IsSameToken(absl::string_view(said->second.data(), said->second.size()), token_)) {
      return Refuse(kWrongToken);
    }
    consumed->emplace(kTokenKey, token_);
    return grpc::Status::OK;
  }

 private:
  grpc::Status Refuse(const char* why) {
    MutexLock lock(&mutex_);
    if (int left_out; log_.MayLog(&left_out)) {
      spdlog::warn("refused a call, and {} before it: {}", left_out, why);
    }
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, why);
  }

  const std::string token_;
  Mutex mutex_;
  LogThrottle log_ ABSL_GUARDED_BY(mutex_);
};

tls::TlsChannelCredentialsOptions ChannelOptions(const Certificates& certificates) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(certificates);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  return options;
}

// The server cannot know by which name others reach a client.
tls::TlsServerCredentialsOptions ServerOptions(const Certificates& certificates) {
  tls::TlsServerCredentialsOptions options(certificates);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return options;
}

}  // namespace

absl::StatusOr<Security> Security::Read(const SecurityOptions& options) {
  KeepGrpc();
  Security security;
  if (WantsTls(options)) {
    if (absl::Status status = CheckCertificates(options); !status.ok()) return status;
    security.certificates_ = std::make_shared<tls::FileWatcherCertificateProvider>(
        options.tls_key, options.tls_cert, options.tls_ca, kLookSeconds);
  }
  security.may_be_public_ = MayBePublic(options);
  security.token_ = options.token;
  if (security.token_.empty() && !options.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadToken(options.token_file);
    if (!token.ok()) return token.status();
    security.token_ = *std::move(token);
  }
  if (security.token_.empty()) return security;
  security.call_ = CredentialsOf(security.token_);
  return security;
}

// gRPC (1.51) allows tokens only with credentials that it considers secure. xDS credentials are
// and, without xDS, they act as the given credentials.
std::shared_ptr<grpc::ChannelCredentials> Security::ForChannel() const {
  if (encrypts()) {
    const auto credentials = tls::TlsCredentials(ChannelOptions(certificates_));
    return call_ == nullptr ? credentials : grpc::CompositeChannelCredentials(credentials, call_);
  }
  if (call_ == nullptr) return grpc::InsecureChannelCredentials();
  return grpc::CompositeChannelCredentials(grpc::XdsCredentials(grpc::InsecureChannelCredentials()),
                                           call_);
}

std::shared_ptr<grpc::ServerCredentials> Security::ForServer() const {
  if (!encrypts() && token_.empty()) return grpc::InsecureServerCredentials();
  auto credentials = encrypts() ? tls::TlsServerCredentials(ServerOptions(certificates_))
                                : grpc::XdsServerCredentials(grpc::InsecureServerCredentials());
  if (!token_.empty()) credentials->SetAuthMetadataProcessor(std::make_shared<TokenJudge>(token_));
  return credentials;
}

}  // namespace gradwire
