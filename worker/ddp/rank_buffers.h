#ifndef GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_
#define GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"

namespace gradwire {

// A module's buffers (BatchNorm statistics), and perhaps its parameters, as each of several ranks
// sees them, that take turns with the module. If they are broadcast, all ranks start a step from
// what rank 0 had at the end of the step before; if not, each goes on with its own.
//
//             Load             Store                       Take
//   start ───────────► module ───────► result ─ Exchange ───────► start, module
//
// Not thread-safe; the exchange's threads may read and write travelling() until Take.
class RankBuffers {
 public:
  // `buffers`: any type, on the CPU, contiguous; in registration order.
  RankBuffers(std::vector<torch::Tensor> buffers, bool broadcast);

  // This worker carries `ranks`, ascending; each starts from what the module has.
  void SetRanks(absl::Span<const Rank> ranks);

  // Whether there is something to be exchanged.
  bool travel() const { return broadcast_ && bytes_ > 0; }
  size_t bytes() const { return bytes_; }

  // Carried rank number `rank` starts its forward passes, or is through with them. What one
  // rank alone need not do is left out.
  void Load(size_t rank);
  void Store(size_t rank);

  // Where rank 0's buffers come from (after its Store) and where they arrive.
  absl::Span<uint8_t> travelling() { return absl::MakeSpan(travelling_); }
  // They have arrived: the module has them, and all ranks start from them.
  void Take();

  // The step whose buffers were taken will not be computed anew.
  void Keep() { has_previous_ = false; }
  // It will be, or, after Keep, the one behind it: if buffers are broadcast, the module has what
  // all ranks start it from. (Else each rank goes on with what it has.) To be followed by SetRanks.
  void Rewind();

 private:
  using Bytes = std::vector<uint8_t>;
  void Pack(Bytes* out) const;
  void Unpack(const Bytes& in);

  const std::vector<torch::Tensor> buffers_;
  const bool broadcast_;
  size_t bytes_ = 0;
  size_t ranks_ = 1;
  bool carries_root_ = true;
  // By carried rank, none if there is one; one for all if broadcast.
  std::vector<Bytes> starts_;
  // If broadcast:
  Bytes travelling_;
  Bytes previous_;  // what ranks started from before the last Take
  bool has_previous_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_
