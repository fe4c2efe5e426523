#include "common/rpc/call_context.h"

#include <utility>

#include "common/rpc/caller.h"

namespace gradwire {

CallContext::CallContext(Incarnation self) : context_(std::make_unique<grpc::ClientContext>()) {
  SayWho(self, context_.get());
}

grpc::ClientContext* CallContext::get() {
  MutexLock lock(&mutex_);
  return context_.get();
}

void CallContext::Cancel() {
  MutexLock lock(&mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

// Memory comes back to those who wait for it without the lock.
void CallContext::Release() {
  std::unique_ptr<grpc::ClientContext> released;
  MutexLock lock(&mutex_);
  released = std::move(context_);
}

}  // namespace gradwire
