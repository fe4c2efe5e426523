#ifndef GRADWIRE_COMMON_RPC_CALLER_H_
#define GRADWIRE_COMMON_RPC_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <set>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/ids.h"
#include "common/wire/view.h"

namespace gradwire {

// Identifies the caller of a long call by its incarnation, which only members of the run know.
void SayWho(Incarnation self, grpc::ClientContext* context);

// Returns whether the caller identifies itself.
bool SaysWho(const grpc::ServerContext& context);
// Returns whether the caller identifies itself as a member of the view.
bool IsMember(const grpc::ServerContext& context, const View& view);

// Returns whether a certificate with this name is for `host`, by the rule for servers: case does
// not count, and "*" at the beginning stands for one label ("*.lab" is for "node1.lab").
bool IsNameOf(absl::string_view name, absl::string_view host);

// Checks that a caller with a certificate (TLS) is the host of `address`, "host:port": the
// certificate must be for that host. OK without a certificate. PermissionDenied has the
// certificate's names.
absl::Status CheckHost(const grpc::ServerContext& context, absl::string_view address);

// Checks that the caller may receive data for the member `reader`: it must identify itself as that
// member and, with TLS, run on its host. OK if no such member exists, because no data is meant for
// it.
absl::Status CheckReader(const grpc::ServerContext& context, const View& view, Incarnation reader);

// Checks what the caller of one call sends: only data of the member that it identifies itself as
// and, with TLS, only from that member's host. For the call's thread.
class Authority {
 public:
  explicit Authority(const grpc::ServerContext* context) : context_(*context) {}

  // Returns whether the data may be a term of `rank` in `view`. Another generation or a rank out of
  // range is checked elsewhere. PermissionDenied names the rank.
  absl::Status Check(const View& view, Generation generation, Rank rank);

 private:
  const grpc::ServerContext& context_;
  Generation generation_;  // of the ranks below
  std::set<Rank> ranks_;   // ranks that passed the check
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALLER_H_
