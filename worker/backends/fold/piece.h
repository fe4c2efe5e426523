#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_PIECE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_PIECE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/aggregation/grid.h"
#include "common/base/ids.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// One bucket on its way to its aggregators and back.
struct FoldTransfer : Transfer {
  FoldTransfer(Transfer transfer, Grid grid)
      : Transfer(std::move(transfer)),
        grid(grid),
        received(grid.pieces()),
        pieces_left(grid.pieces()) {}

  const Grid grid;
  std::vector<uint8_t> received;  // by piece; a piece belongs to one lane's receiver
  std::atomic<size_t> pieces_left;
};

// A piece of a bucket that a rank contributes.
struct Piece {
  std::shared_ptr<FoldTransfer> transfer;
  size_t index = 0;
  Rank rank;
  absl::Span<const uint8_t> terms;  // the rank's, of the whole bucket
  double rate = 0;                  // of the step, for a model that is served

  uint64_t bytes() const { return transfer->grid.Bytes(index); }
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_PIECE_H_
