#include <gradwire/distributed_data_parallel.h>

#include <utility>

#include "library/ddp_impl.h"

namespace gradwire {

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<torch::nn::Module> module,
                                                 std::shared_ptr<ProcessGroup> group,
                                                 const DDPOptions& options)
    : impl_(std::make_unique<Impl>(std::move(module), group, group->impl_.get(), options)) {}

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
