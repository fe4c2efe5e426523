#include <gradwire/process_group.h>
#include <gradwire/version.h>
#include <spdlog/spdlog.h>

#include "common/base/logging.h"
#include "common/rpc/channel.h"
#include "library/process_group_impl.h"

namespace gradwire {

namespace {

// If a program has not set a logger, spdlog would print our log to stdout.
void SettleLogging() {
  if (spdlog::default_logger()->name().empty()) LogToStderr();
}

}  // namespace

TensorCollectives& ProcessGroup::Impl::collectives() {
  Check(member_->state());
  return collectives_;
}

void ProcessGroup::Impl::Check(const absl::Status& status, int64_t step) const {
  if (!status.ok()) throw ToError(status, member_->rank().value(), step);
}

namespace {

absl::Status SeveralModels() {
  return absl::FailedPreconditionError(
      "resume: got several models in the group, expected one, because a checkpoint has one");
}

}  // namespace

absl::Status ProcessGroup::Impl::AddModel() {
  ++made_models_;
  return keep_last_ ? SeveralModels() : absl::OkStatus();
}

absl::Status ProcessGroup::Impl::SetKeepLast(std::function<absl::Status()> keep_last) {
  if (keep_last && made_models_ > 1) return SeveralModels();
  keep_last_ = std::move(keep_last);
  return absl::OkStatus();
}

void ProcessGroup::Impl::Close() {
  if (closed_) return;
  closed_ = true;
  absl::Status status;
  try {
    if (keep_last_ && member_->state().ok()) status = keep_last_();
  } catch (...) {  // of a hook
    FailByException();
    member_->Leave().IgnoreError();
    throw;
  }
  status.Update(member_->Leave());
  Check(status);
}

void ProcessGroup::Impl::FailByException() {
  member_->Fail(absl::CancelledError("an exception ended the program's use of the group"))
      .IgnoreError();
}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProcessGroup::~ProcessGroup() {
  if (impl_->closed()) return;
  if (impl_->Unwinding()) impl_->FailByException();
  try {
    impl_->Close();
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
  }
}

int ProcessGroup::rank() const { return impl_->member().rank().value(); }
int ProcessGroup::world_size() const { return impl_->member().world_size(); }
int ProcessGroup::local_rank() const { return impl_->member().settings().local_rank; }
std::string ProcessGroup::page() const { return impl_->member().page(); }

torch::Tensor ProcessGroup::allocate(torch::IntArrayRef sizes) {
  absl::StatusOr<torch::Tensor> tensor = impl_->collectives().Allocate(sizes);
  impl_->Check(tensor.status());
  return *std::move(tensor);
}

torch::Tensor ProcessGroup::mean(const torch::Tensor& tensor) {
  absl::StatusOr<torch::Tensor> mean = impl_->collectives().Mean(tensor);
  impl_->Check(mean.status());
  return *std::move(mean);
}

void ProcessGroup::all_reduce(torch::Tensor tensor, ReduceOp op) {
  impl_->Check(impl_->collectives().AllReduce(std::move(tensor), op));
}

void ProcessGroup::broadcast(torch::Tensor tensor, int root) {
  impl_->Check(impl_->collectives().Broadcast(std::move(tensor), Rank(root)));
}

std::vector<torch::Tensor> ProcessGroup::all_gather(const torch::Tensor& tensor) {
  absl::StatusOr<std::vector<torch::Tensor>> tensors = impl_->collectives().AllGather(tensor);
  impl_->Check(tensors.status());
  return *std::move(tensors);
}

void ProcessGroup::barrier() {
  impl_->Check(impl_->collectives().AllGather(torch::empty({0}, torch::kByte)).status());
}

void ProcessGroup::close() { impl_->Close(); }

std::shared_ptr<ProcessGroup> init_process_group(const GroupOptions& options) {
  SettleLogging();
  if (options.keep_freed_memory) KeepFreedMemory();
  const Environment environment = CurrentEnvironment();
  const absl::StatusOr<GroupSettings> settings = ReadGroupSettings(options, environment);
  if (!settings.ok()) throw ToError(settings.status(), -1, -1);
  absl::StatusOr<std::unique_ptr<GroupMember>> member = GroupMember::Join(*settings, environment);
  if (!member.ok()) throw ToError(member.status(), settings->rank, -1);
  auto impl = std::make_unique<ProcessGroup::Impl>(*std::move(member));
  const std::shared_ptr<ProcessGroup> group(new ProcessGroup(std::move(impl)));
  group->barrier();  // so that no rank leaves before all are connected
  return group;
}

const char* version() { return GRADWIRE_VERSION; }

}  // namespace gradwire
