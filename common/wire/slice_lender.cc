#include "common/wire/slice_lender.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace gradwire {
namespace {

constexpr absl::Duration kReclaimTimeout = absl::Seconds(5);

}  // namespace

struct SliceLender::Ledger {
  Mutex mutex;
  CondVar returned;
  size_t lent ABSL_GUARDED_BY(mutex) = 0;
};

SliceLender::SliceLender() : ledger_(std::make_shared<Ledger>()) {}
SliceLender::~SliceLender() = default;

grpc::Slice SliceLender::Lend(const void* data, size_t bytes) {
  if (bytes == 0) return grpc::Slice();
  {
    MutexLock lock(&ledger_->mutex);
    ++ledger_->lent;
  }
  auto give_back = [](void* held) {
    std::unique_ptr<std::shared_ptr<Ledger>> ledger(static_cast<std::shared_ptr<Ledger>*>(held));
    MutexLock lock(&(*ledger)->mutex);
    if (--(*ledger)->lent == 0) (*ledger)->returned.NotifyAll();
  };
  return grpc::Slice(const_cast<void*>(data), bytes, give_back,
                     new std::shared_ptr<Ledger>(ledger_));
}

std::shared_ptr<const void> SliceLender::LendToken() {
  {
    MutexLock lock(&ledger_->mutex);
    ++ledger_->lent;
  }
  return std::shared_ptr<const void>(ledger_.get(), [ledger = ledger_](const void*) {
    MutexLock lock(&ledger->mutex);
    if (--ledger->lent == 0) ledger->returned.NotifyAll();
  });
}

absl::Status SliceLender::Reclaim(absl::Status status) {
  const absl::Time deadline = SteadyNow() + kReclaimTimeout;
  MutexLock lock(&ledger_->mutex);
  while (ledger_->lent > 0) {
    if (!ledger_->returned.WaitWithDeadline(&ledger_->mutex, deadline)) continue;
    if (ledger_->lent == 0) break;
    return absl::InternalError(
        absl::StrCat("the transfer still holds ", ledger_->lent, " borrowed pieces of memory"));
  }
  return status;
}

grpc::Slice SliceOwnedBy(std::shared_ptr<const void> owner, const void* data, size_t bytes) {
  if (bytes == 0) return grpc::Slice();
  auto release = [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); };
  return grpc::Slice(const_cast<void*>(data), bytes, release,
                     new std::shared_ptr<const void>(std::move(owner)));
}

}  // namespace gradwire
