#include <gradwire/distributed_data_parallel.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "library/ddp_impl.h"
#include "library/errors.h"

namespace gradwire {
namespace {

absl::Status GotNo(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("DistributedDataParallel: got no ", what,
                                                 " (a null pointer), expected a ", what));
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<torch::nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DDPOptions& options)
    : impl_([&] {
        if (group == nullptr) throw ToError(GotNo("group"), -1, -1);
        auto* const run = group->impl_.get();
        if (module == nullptr) run->Check(run->member().Fail(GotNo("module")));
        return std::make_unique<Impl>(std::move(module), group, run, options);
      }()) {}

DistributedDataParallel::~DistributedDataParallel() = default;

DistributedDataParallel::NoSyncGuard::NoSyncGuard(DistributedDataParallel* ddp) : ddp_(ddp) {
  ddp_->impl_->BeginNoSync();
}

DistributedDataParallel::NoSyncGuard::~NoSyncGuard() { ddp_->impl_->EndNoSync(); }

DistributedDataParallel::NoSyncGuard DistributedDataParallel::no_sync() {
  return NoSyncGuard(this);
}

void DistributedDataParallel::join(const std::function<void()>& loop, const JoinOptions& options) {
  impl_->Join(loop, options);
}

void DistributedDataParallel::report_loss(double loss, int64_t samples) {
  impl_->SetLoss(loss, samples);
}

void DistributedDataParallel::attach(torch::optim::Optimizer& optimizer) {
  impl_->Attach(&optimizer);
}

void DistributedDataParallel::attach(const std::string& name, StateHooks hooks) {
  impl_->Attach(name, std::move(hooks));
}

int64_t DistributedDataParallel::resume() { return impl_->Resume(); }
void DistributedDataParallel::end_step() { impl_->EndStep(); }

int64_t DistributedDataParallel::steps() const { return impl_->steps(); }

const std::shared_ptr<torch::nn::Module>& DistributedDataParallel::module() const {
  return impl_->module();
}

}  // namespace gradwire
