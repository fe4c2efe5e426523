#ifndef GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_
#define GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_

#include <gradwire/process_group.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "library/allocated_tensors.h"
#include "library/group_member.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Collectives of any length over an Exchange, whose buckets have fixed lengths. A message is cut
// into pieces; each piece is sent in the smallest layout that it fits in, of 1 KiB, 2 KiB, 4 KiB …,
// and each call is a step of that layout. Layouts are declared at their first use.
//
// A step ends when all ranks have begun it. Each piece carries a signature of 8 bytes for values
// that must be equal on all ranks (operation, type, shape). All ranks must make the same calls in
// the same order, on one thread at a time. An error ends the run (see GroupMember::Fail).
//   Aborted  ranks do not make the same call
//   or an error of the exchange
class ByteCollectives {
 public:
  // Most bytes of one piece; a multiple of every element's size.
  static constexpr size_t kMaxPiece = (1 << 20) - 16;

  // `member` must outlive this object.
  explicit ByteCollectives(GroupMember* member) : member_(member) {}

  // Writes every rank's `mine` to `all`, by rank; `all` is W times as long.
  absl::Status Gather(uint64_t signature, absl::Span<const uint8_t> mine, absl::Span<uint8_t> all);
  // Gather in two halves: between them other calls may be made and `mine` may change. At most
  // kMaxPiece bytes, and one at a time.
  absl::Status BeginGather(uint64_t signature, absl::Span<const uint8_t> mine);
  absl::Status EndGather(absl::Span<uint8_t> all);
  // Sets `bytes` to those of `root`.
  absl::Status Broadcast(uint64_t signature, Rank root, absl::Span<uint8_t> bytes);
  // Sets `values` to their mean over all ranks, folded as gradients are, in the wire type.
  absl::Status Mean(uint64_t signature, absl::Span<float> values);

 private:
  enum class Kind { kGather, kGatherInHalves, kBroadcast, kMean };
  // A layout, and memory for a step of it.
  struct Channel {
    LayoutId id;
    Step next;
    size_t piece = 0;           // bytes of a bucket
    std::vector<uint8_t> data;  // of all its buckets, as they arrive
    // After buckets of bytes comes a bucket of one float: its mean ends the step only when all
    // ranks are there, so that no root runs ahead.
    bool gated = true;
  };

  // A step of a channel that is under way.
  struct Call {
    Channel* channel = nullptr;
    float mean = 0;  // of the gate's bucket
    absl::optional<WholeStep> step;
  };

  static std::string NameOf(Kind kind, Rank root);
  absl::StatusOr<Channel*> ChannelFor(Kind kind, Rank root, size_t bytes);
  absl::StatusOr<Channel> Open(Kind kind, Rank root, size_t piece);
  absl::StatusOr<std::unique_ptr<Call>> StartGather(Kind kind, uint64_t signature,
                                                    absl::Span<const uint8_t> mine);
  absl::Status TakeGathered(Call* call, uint64_t signature, size_t size, uint8_t* all,
                            size_t stride);
  absl::Status GatherPiece(uint64_t signature, absl::Span<const uint8_t> mine, uint8_t* all,
                           size_t stride);
  absl::Status BroadcastPiece(uint64_t signature, Rank root, absl::Span<uint8_t> bytes);
  absl::Status MeanPiece(absl::Span<float> values);
  // Runs one step: the result of bucket i goes to channel->data; `terms` is this rank's part in
  // bucket `own`, if that is a bucket.
  absl::Status Run(Channel* channel, size_t own, const uint8_t* terms);
  std::unique_ptr<Call> Start(Channel* channel, size_t own, const uint8_t* terms);
  absl::Status Await(Call* call);

  GroupMember* const member_;
  std::map<std::tuple<Kind, Rank, size_t>, Channel> channels_;
  std::unique_ptr<Call> begun_;  // by BeginGather
  uint64_t begun_signature_ = 0;
  size_t begun_size_ = 0;
};

// Collectives of tensors; see ProcessGroup. InvalidArgument for an unusable tensor comes before
// anything is sent, and does not affect the run; other errors end it.
class TensorCollectives {
 public:
  // `member` must outlive this object.
  explicit TensorCollectives(GroupMember* member)
      : member_(member), collectives_(member), allocated_(member) {}

  absl::StatusOr<torch::Tensor> Allocate(torch::IntArrayRef sizes) {
    return allocated_.Allocate(sizes);
  }
  // Returns where the mean of a tensor of Allocate is, until the next call for that tensor.
  absl::StatusOr<torch::Tensor> Mean(const torch::Tensor& tensor);
  absl::Status AllReduce(torch::Tensor tensor, ReduceOp op);
  absl::Status Broadcast(torch::Tensor tensor, Rank root);
  absl::StatusOr<std::vector<torch::Tensor>> AllGather(const torch::Tensor& tensor);
  // Gets each rank's answer to one question, by rank, in two halves: other collectives may be
  // called between them.
  absl::Status BeginAsk(uint8_t mine);
  absl::StatusOr<std::vector<uint8_t>> EndAsk();
  // Sets all of `tensors` to those of `root`, in one message.
  absl::Status BroadcastAll(const std::vector<torch::Tensor>& tensors, Rank root);

 private:
  absl::Status FoldSlice(uint64_t signature, torch::Tensor slice, ReduceOp op);
  // Whether means of float32 tensors are folded as gradients are, because that rounds nothing.
  bool CanFold() const { return member_->settings().wire_dtype == v1::DTYPE_FLOAT32; }
  absl::Status Average(AllocatedTensors::Entry* entry);

  GroupMember* const member_;
  ByteCollectives collectives_;
  AllocatedTensors allocated_;
};

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_TENSOR_COLLECTIVES_H_
