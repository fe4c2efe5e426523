#ifndef GRADWIRE_COMMON_RPC_CALL_GUARD_H_
#define GRADWIRE_COMMON_RPC_CALL_GUARD_H_

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <map>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/base/logging.h"
#include "common/base/mutex.h"

namespace gradwire {

// The context of one long call. The call may be cancelled from any thread, and the context released
// when the call is over. Until then gRPC (1.51) keeps the last message of a cancelled call, with
// the memory lent to it.
class CallContext {
 public:
  // `self` identifies the caller (SayWho).
  explicit CallContext(Incarnation self);
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // For the stream of the call; valid until Release.
  grpc::ClientContext* get();
  // Does nothing after the call is over.
  void Cancel();
  // The call has finished, and its stream is destroyed.
  void Release();

 private:
  Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
};

// Ends calls whose caller does not prove in time that it takes part in the run: each call holds a
// thread. Thread-safe.
class CallGuard {
 public:
  explicit CallGuard(absl::Duration patience);
  // No call may be watched any more.
  ~CallGuard();

  // A call while it is watched; it is cancelled when the guard's time limit passes.
  class Watch {
   public:
    Watch(CallGuard* guard, grpc::ServerContext* context);
    ~Watch() { Trust(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // The caller takes part: stops watching.
    void Trust();

   private:
    CallGuard* guard_;  // null: not watching
    grpc::ServerContext* const context_;
  };

 private:
  void Run();
  void End(grpc::ServerContext* context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  Mutex mutex_;
  CondVar changed_;
  std::map<grpc::ServerContext*, absl::Time> deadlines_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  LogThrottle log_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALL_GUARD_H_
