#ifndef GRADWIRE_LIBRARY_PROCESS_GROUP_IMPL_H_
#define GRADWIRE_LIBRARY_PROCESS_GROUP_IMPL_H_

#include <gradwire/process_group.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "library/errors.h"
#include "library/group_member.h"
#include "library/tensor_collectives.h"

namespace gradwire {

// The parts of a ProcessGroup, also for DistributedDataParallel.
class ProcessGroup::Impl {
 public:
  explicit Impl(std::unique_ptr<GroupMember> member)
      : member_(std::move(member)), collectives_(member_.get()) {}

  GroupMember& member() { return *member_; }
  // A model of the group was made. FailedPrecondition if another one keeps its state.
  absl::Status AddModel();
  // The group's model keeps its state in checkpoints: Close calls `keep_last`, unless the model
  // ends first and sets null. FailedPrecondition if the group has several models.
  absl::Status SetKeepLast(std::function<absl::Status()> keep_last);
  // For a collective: throws if the run has failed or the group is closed.
  TensorCollectives& collectives();

  // Throws `status` unless it is OK.
  void Check(const absl::Status& status, int64_t step = -1) const;
  // Leaves the run. An exception of a hook fails the run and is thrown again.
  void Close();
  // Tells the other ranks that the program has thrown an exception.
  void FailByException();
  // Whether an exception was thrown since the group was made and is still unwinding: then its owner
  // does not end in order.
  bool Unwinding() const { return std::uncaught_exceptions() > exceptions_; }
  bool closed() const { return closed_; }
  // Returns "model 0", "model 1", …
  std::string NextModelName() { return "model " + std::to_string(models_++); }

 private:
  const std::unique_ptr<GroupMember> member_;
  TensorCollectives collectives_;
  const int exceptions_ = std::uncaught_exceptions();
  bool closed_ = false;
  int models_ = 0;       // named by NextModelName
  int made_models_ = 0;  // all
  std::function<absl::Status()> keep_last_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_PROCESS_GROUP_IMPL_H_
