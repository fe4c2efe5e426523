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

// A module's buffers (BatchNorm statistics), and perhaps its parameters, for several ranks that
// take turns with the module. If they are broadcast, all ranks start a step with rank 0's buffers
// from the end of the previous step; if not, each rank keeps its own.
//
//             Load             Store                       Take
//   start ───────────► module ───────► result ─ Exchange ───────► start, module
//
// A step can be undone (Rewind): always if buffers are broadcast, else if they are `undoable`. For
// each rank this keeps its state before each step that is not final, and its state now:
//
//   before step k   before k + 1   after k + 1       k: the first step that Rewind may undo
//   front           …              back
//   └ Keep removes it              └ Store adds it, Load takes it
//
// Not thread-safe; the exchange's threads may read and write travelling() until Take.
class RankBuffers {
 public:
  // `buffers`: any type, on the CPU, contiguous; in registration order. `undoable`: Keep is called
  // once for each step, in order, as soon as it is final; until then Rewind may be called.
  RankBuffers(std::vector<torch::Tensor> buffers, bool broadcast, bool undoable);

  // Sets the ranks of this worker, ascending; each starts with the module's state. Exception: after
  // Rewind, if nothing is broadcast, ranks that the worker already carried keep their own state.
  void SetRanks(absl::Span<const Rank> ranks);

  // Whether there is anything to exchange.
  bool travel() const { return broadcast_ && bytes_ > 0; }
  size_t bytes() const { return bytes_; }

  // Carried rank `rank` starts or ends its forward passes. Do nothing that a single rank does not
  // need.
  void Load(size_t rank);
  void Store(size_t rank);

  // The source of rank 0's buffers (after its Store), and the place where they arrive.
  absl::Span<uint8_t> travelling() { return absl::MakeSpan(travelling_); }
  // They have arrived: sets the module to them; all ranks start from them.
  void Take();

  // Declares the first step that is not final (if buffers are broadcast: the step of the last Take)
  // as final.
  void Keep();
  // Undoes all steps that are not final. Each rank gets its state before the first of them; the
  // module gets the state of the first carried rank. Before the first SetRanks the module keeps its
  // state, which may have been restored meanwhile. Call SetRanks next.
  void Rewind();

 private:
  using Bytes = std::vector<uint8_t>;
  void Pack(Bytes* out) const;
  void Unpack(const Bytes& in);

  const std::vector<torch::Tensor> buffers_;
  const bool broadcast_;
  const bool undoable_;
  size_t bytes_ = 0;
  bool set_ = false;  // SetRanks was called
  std::vector<Rank> ranks_;
  // If not broadcast: the states of each carried rank, as drawn above; only the last if not
  // undoable. Empty if the module is enough.
  std::vector<std::deque<Bytes>> own_;
  bool rewound_ = false;  // since the last SetRanks
  // If broadcast:
  Bytes start_;  // for all ranks
  Bytes travelling_;
  Bytes previous_;  // the ranks' start before the last Take
  bool has_previous_ = false;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_DDP_RANK_BUFFERS_H_
