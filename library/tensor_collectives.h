#ifndef GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_
#define GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_

#include <gradwire/process_group.h>
#include <torch/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "library/byte_collectives.h"
#include "library/group_member.h"

namespace gradwire {

// Collectives of tensors; see ProcessGroup for what they do. InvalidArgument of a tensor that
// cannot be used comes before anything is sent, and leaves the run as it is; after other errors
// it is over.
class TensorCollectives {
 public:
  // `member` outlives this object.
  explicit TensorCollectives(GroupMember* member) : member_(member), collectives_(member) {}

  absl::Status AllReduce(torch::Tensor tensor, ReduceOp op);
  absl::Status Broadcast(torch::Tensor tensor, Rank root);
  absl::StatusOr<std::vector<torch::Tensor>> AllGather(const torch::Tensor& tensor);
  // Each rank's answer to one question, by rank, in two halves: other collectives may come
  // between them.
  absl::Status BeginAsk(bool mine);
  absl::StatusOr<std::vector<bool>> EndAsk();
  // All of `tensors` become those of `root`, in one go.
  absl::Status BroadcastAll(const std::vector<torch::Tensor>& tensors, Rank root);

 private:
  absl::Status FoldSlice(uint64_t signature, torch::Tensor slice, ReduceOp op);

  GroupMember* const member_;
  ByteCollectives collectives_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_
