#ifndef GRADWIRE_COMMON_RPC_SECURITY_H_
#define GRADWIRE_COMMON_RPC_SECURITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/options/security_options.h"

namespace grpc {
class CallCredentials;
class ChannelCredentials;
class ServerCredentials;
namespace experimental {
class CertificateProviderInterface;
}
}  // namespace grpc

namespace gradwire {

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
