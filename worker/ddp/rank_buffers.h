#ifndef GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_
#define GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <deque>
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
// A step can be undone (Rewind): what is broadcast always, a rank's own if it is `undoable`. Of
// each rank there is then what it had before each step that is not final, and what it has now:
//
//   before step k   before k + 1   after k + 1       k: the first step that Rewind may undo
//   front           …              back
//   └ Keep removes it              └ Store adds it, Load takes it
//
// Not thread-safe; the exchange's threads may read and write travelling() until Take.
class RankBuffers {
 public:
  // `buffers`: any type, on the CPU, contiguous; in registration order. `undoable`: Keep is called
  // once for each step, in order, as soon as it is final, and until then Rewind may be.
  RankBuffers(std::vector<torch::Tensor> buffers, bool broadcast, bool undoable);

  // This worker carries `ranks`, ascending; each starts from what the module has. Exception: if
  // Rewind came before and nothing is broadcast, the ranks that it carried already keep their own.
  void SetRanks(absl::Span<const Rank> ranks);

  // Whether there is something to be exchanged.
  bool travel() const { return broadcast_ && bytes_ > 0; }
  size_t bytes() const { return bytes_; }

  // Carried rank number `rank` starts its forward passes, or is through with them. Both do nothing
  // that one rank alone does not need.
  void Load(size_t rank);
  void Store(size_t rank);

  // Where rank 0's buffers come from (after its Store) and where they arrive.
  absl::Span<uint8_t> travelling() { return absl::MakeSpan(travelling_); }
  // They have arrived: the module has them, and all ranks start from them.
  void Take();

  // The first step that is not final (if buffers are broadcast: the one whose buffers were taken)
  // is final now.
  void Keep();
  // All steps that are not final will be computed anew. Each rank has again what it had before the
  // first of them; the module has what the first carried rank had. To be followed by SetRanks.
  void Rewind();

 private:
  using Bytes = std::vector<uint8_t>;
  void Pack(Bytes* out) const;
  void Unpack(const Bytes& in);

  const std::vector<torch::Tensor> buffers_;
  const bool broadcast_;
  const bool undoable_;
  size_t bytes_ = 0;
  std::vector<Rank> ranks_;
  // If not broadcast: of each carried rank, as drawn above; only the last if not undoable. Empty if
  // the module is all that is needed.
  std::vector<std::deque<Bytes>> own_;
  bool rewound_ = false;  // since the last SetRanks
  // If broadcast:
  Bytes start_;  // of all ranks
  Bytes travelling_;
  Bytes previous_;  // what ranks started from before the last Take
  bool has_previous_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_
