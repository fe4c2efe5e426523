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

// What guards a process's calls: the token that each carries, and TLS, in which both ends show a
// certificate of the run's CA. Made once, and copied to whatever makes a channel or serves. The
// files of TLS are looked at once a second: what is connected later has the certificates that stand
// there then. Thread-safe.
class Security {
 public:
  // No guard.
  Security() = default;
  // What `options` ask for. Errors: those of ReadToken and CheckCertificates.
  static absl::StatusOr<Security> Read(const SecurityOptions& options);

  // The token; empty if there is none.
  const std::string& token() const { return token_; }

  bool encrypts() const { return certificates_ != nullptr; }
  // Whether a server may be where anybody reaches it (common/rpc/reach.h).
  bool may_be_public() const { return may_be_public_; }

  // Of a channel whose calls carry the token. With TLS the server has to show a certificate for the
  // name or address that the channel is to.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel() const;
  // Of a server. A call without the token, or with another one, ends with Unauthenticated before
  // anything of ours hears of it: it costs no thread, and nothing that it sends is read.
  std::shared_ptr<grpc::ServerCredentials> ForServer() const;

 private:
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> certificates_;  // null: no TLS
  std::string token_;                                                               // empty: none
  std::shared_ptr<grpc::CallCredentials> call_;                                     // null: none
  bool may_be_public_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_SECURITY_H_
