#include "common/rpc/call_guard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
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

// Memory returns to threads that wait for it without the lock.
void CallContext::Release() {
  std::unique_ptr<grpc::ClientContext> released;
  MutexLock lock(&mutex_);
  released = std::move(context_);
}

CallGuard::CallGuard(absl::Duration patience) : patience_(patience), thread_([this] { Run(); }) {}

CallGuard::~CallGuard() {
  {
    MutexLock lock(&mutex_);
    over_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

CallGuard::Watch::Watch(CallGuard* guard, grpc::ServerContext* context)
    : guard_(guard), context_(context) {
  MutexLock lock(&guard_->mutex_);
  guard_->deadlines_[context_] = SteadyNow() + guard_->patience_;
  guard_->changed_.NotifyAll();
}

void CallGuard::Watch::Trust() {
  CallGuard* const guard = std::exchange(guard_, nullptr);
  if (guard == nullptr) return;
  MutexLock lock(&guard->mutex_);
  guard->deadlines_.erase(context_);
}

void CallGuard::Run() {
  MutexLock lock(&mutex_);
  while (!over_) {
    const absl::Time now = SteadyNow();
    absl::Time next = absl::InfiniteFuture();
    for (auto& [context, deadline] : deadlines_) {
      if (deadline <= now) {
        deadline = absl::InfiniteFuture();
        End(context);
      }
      next = std::min(next, deadline);
    }
    changed_.WaitWithDeadline(&mutex_, next);
  }
}

// Only wakes the call's thread, which takes the lock before it calls our code.
void CallGuard::End(grpc::ServerContext* context) {
  if (int left_out; log_.MayLog(&left_out)) {
    spdlog::warn("ended a call from {}, and {} before it: no valid message of this run within {}",
                 context->peer(), left_out, absl::FormatDuration(patience_));
  }
  context->TryCancel();
}

}  // namespace gradwire
