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

// A worker says with each long call who it is: by its incarnation, which only members of the
// run have heard of.
void SayWho(Incarnation self, grpc::ClientContext* context);

// Whether the caller says who it is.
bool SaysWho(const grpc::ServerContext& context);
// Whether the caller says that it is a member of the view.
bool IsMember(const grpc::ServerContext& context, const View& view);

// Whether a caller that shows a certificate (TLS) is the host of `address`, "host:port": the
// certificate is for that host. Without one it cannot be told, and counts. PermissionDenied says
// whom the certificate is for.
absl::Status CheckHost(const grpc::ServerContext& context, absl::string_view address);

// Whether the caller may have what is meant for the member `reader`: it says that it is that one,
// and with TLS is on its host. OK if there is no such member, for nothing is meant for it then.
absl::Status CheckReader(const grpc::ServerContext& context, const View& view, Incarnation reader);

// What the caller of one call may say: only what comes from the member that it says it is, and with
// TLS from that member's host. Of the call's thread.
class Authority {
 public:
  explicit Authority(const grpc::ServerContext* context) : context_(*context) {}

  // Whether that may be a term of `rank` in `view`; of another generation, or of a rank beyond the
  // view's, it is for others to judge. PermissionDenied names the rank.
  absl::Status Check(const View& view, Generation generation, Rank rank);

 private:
  const grpc::ServerContext& context_;
  Generation generation_;  // of what follows
  std::set<Rank> ranks_;   // that were found right
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALLER_H_
