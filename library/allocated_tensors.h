#ifndef GRADWIRE_LIBRARY_ALLOCATED_TENSORS_H_
#define GRADWIRE_LIBRARY_ALLOCATED_TENSORS_H_

#include <torch/types.h>

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "library/group_member.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// The tensors of ProcessGroup::allocate. Each is the only bucket of a layout of its own, for as
// long as the group exists, so a mean of it is a step of that layout. Tensor and mean lie in the
// exchange's memory if that offers some (see Exchange::Memory), else in this process's own; the
// bits are the same. One thread at a time.
class AllocatedTensors {
 public:
  // A tensor, and where its mean goes.
  struct Entry {
    LayoutId layout;
    Step next;
    torch::Tensor tensor;
    torch::Tensor mean;
  };

  // `member` must outlive this object; tensors may outlive both.
  explicit AllocatedTensors(GroupMember* member) : member_(member) {}

  // Returns a zeroed tensor of float32. All ranks make this call, with the same `sizes`.
  // InvalidArgument if they are no sizes of a tensor with elements; nothing was sent. Else errors
  // of GroupMember::Declare.
  absl::StatusOr<torch::Tensor> Allocate(torch::IntArrayRef sizes);
  // Returns the entry of a tensor that Allocate returned, in any shape; null if it is no such
  // tensor.
  Entry* Find(const torch::Tensor& tensor);
  // Sets the mean of `entry` to that of all ranks' tensors. An error ends the run.
  absl::Status Average(Entry* entry);

 private:
  GroupMember* const member_;
  std::map<const void*, Entry> entries_;  // by the tensor's memory
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_ALLOCATED_TENSORS_H_
