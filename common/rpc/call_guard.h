#ifndef GRADWIRE_COMMON_RPC_CALL_GUARD_H_
#define GRADWIRE_COMMON_RPC_CALL_GUARD_H_

#include <grpcpp/server_context.h>

#include <map>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/seldom.h"

namespace gradwire {

// Ends calls whose caller does not show in time that it takes part in the run: each holds a
// thread for as long as it likes. Thread-safe.
class CallGuard {
 public:
  explicit CallGuard(absl::Duration patience);
  // No call is watched any more.
  ~CallGuard();

  // A call while it is watched; it is cancelled when the guard's patience is over.
  class Watch {
   public:
    Watch(CallGuard* guard, grpc::ServerContext* context);
    ~Watch() { Trust(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // The caller takes part: watches no more.
    void Trust();

   private:
    CallGuard* guard_;  // null: watches no more
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
  Seldom log_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CALL_GUARD_H_
