#ifndef GRADWIRE_COMMON_RPC_CALLER_H_
#define GRADWIRE_COMMON_RPC_CALLER_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

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

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALLER_H_
