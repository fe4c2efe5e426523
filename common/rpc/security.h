#ifndef GRADWIRE_COMMON_RPC_SECURITY_H_
#define GRADWIRE_COMMON_RPC_SECURITY_H_

struct ssl_ctx_st;
namespace grpc {
class CallCredentials;
class ChannelCredentials;
class ServerCredentials;
namespace experimental {
class CertificateProviderInterface;
}
}  // namespace grpc
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/options/security_options.h"

namespace gradwire {

// OpenSSL's context, with a certificate, its key and a CA.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

// Creates a context from the files of `options`; all are required. Errors: as for
// CheckCertificates.
absl::StatusOr<TlsContext> ReadCertificates(const SecurityOptions& options);

// Checks the TLS files of `options`; all are required. gRPC itself would refuse every connection
// without a message.
//   InvalidArgument  a file is not given or malformed, the certificate has expired or is not valid
//                    yet, or the key belongs to another certificate
//   NotFound         a file cannot be read
absl::Status CheckCertificates(const SecurityOptions& options);

// Protects a process's calls: by the token that each carries, and by TLS, in which both sides show
// a certificate of the run's CA. Created once, and copied to every user. The TLS files are checked
// once a second: later connections use the certificates that they then contain. Thread-safe.
class Security {
 public:
  // No protection.
  Security() = default;
  // Reads what `options` require. Errors: as for ReadToken and CheckCertificates.
  static absl::StatusOr<Security> Read(const SecurityOptions& options);

  // Returns the token; empty if there is none.
  const std::string& token() const { return token_; }

  bool encrypts() const { return certificates_ != nullptr; }
  // Returns whether a server may listen on public addresses (common/rpc/reach.h).
  bool may_be_public() const { return may_be_public_; }

  // Returns credentials of a channel whose calls carry the token. With TLS the server must show a
  // certificate for the channel's name or address.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel() const;
  // Returns credentials of a server. A call without the token, or with another one, ends with
  // Unauthenticated before our code sees it: it costs no thread, and its data are not read.
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

 private:
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> certificates_;  // null: no TLS
  std::string token_;                                                               // empty: none
  std::shared_ptr<grpc::CallCredentials> call_;                                     // null: none
  bool may_be_public_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_SECURITY_H_
