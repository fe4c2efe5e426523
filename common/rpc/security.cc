#include "common/rpc/security.h"

#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <spdlog/spdlog.h>

#include <map>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/base/seldom.h"
#include "common/base/token.h"
#include "common/rpc/certificates.h"
#include "common/rpc/keep_grpc.h"

namespace gradwire {
namespace {

namespace tls = grpc::experimental;
using Certificates = std::shared_ptr<tls::CertificateProviderInterface>;

constexpr unsigned kLookSeconds = 1;
constexpr char kTokenKey[] = "gradwire-token";
constexpr char kNoToken[] =
    "this run asks for a token, and the call has none; expected the coordinator's --token-file";
constexpr char kWrongToken[] =
    "the call's token is not that of this run; expected the coordinator's --token-file";

// Puts the token in each call. Neither this nor TokenJudge waits, so gRPC needs no threads for it.
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
  Seldom log_ ABSL_GUARDED_BY(mutex_);
};

tls::TlsChannelCredentialsOptions ChannelOptions(const Certificates& certificates) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(certificates);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(std::make_shared<tls::HostNameCertificateVerifier>());
  return options;
}

// By which name others will reach a client, if at all, its server cannot know.
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
  // Also where the channel protects nothing.
  security.call_ = tls::MetadataCredentialsFromPlugin(
      std::make_unique<TokenBearer>(security.token_), GRPC_SECURITY_NONE);
  return security;
}

// gRPC (1.51) has tokens only for credentials that it calls secure. Those of xDS are, and where
// there is no xDS they are just the ones that they are given.
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
