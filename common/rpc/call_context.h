#ifndef GRADWIRE_COMMON_RPC_CALL_CONTEXT_H_
#define GRADWIRE_COMMON_RPC_CALL_CONTEXT_H_

#include <grpcpp/client_context.h>

#include <memory>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace gradwire {

// The context of one long call, which may be cancelled from any thread, and let go of when the call
// is over: until then gRPC (1.51) keeps the last message of a cancelled call, and with it the
// memory that it was lent.
class CallContext {
 public:
  // `self` says who calls (SayWho).
  explicit CallContext(Incarnation self);
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // For the stream of the call; good until Release.
  grpc::ClientContext* get();
  // Does nothing once the call is over.
  void Cancel();
  // The call has finished, and its stream is gone.
  void Release();

 private:
  Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALL_CONTEXT_H_
