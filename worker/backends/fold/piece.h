#ifndef GRADWIRE_WORKER_BACKENDS_FOLD_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_FOLD_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/aggregation/grid.h"
#include "common/wire/chunk.h"
#include "common/wire/slice_lender.h"
#include "worker/backends/transfer.h"

namespace gradwire {

// One bucket on its way to its aggregators and back.
struct Exchange {
  Exchange(Transfer transfer, Grid grid)
      : transfer(std::move(transfer)),
        grid(grid),
        received(grid.pieces()),
        pieces_left(grid.pieces()) {}

  Transfer transfer;
  const Grid grid;
  SliceLender lender;             // of transfer.terms
  std::vector<uint8_t> received;  // by piece; a piece belongs to one lane's receiver
  std::atomic<size_t> pieces_left;
};

// A piece of an exchange.
struct Piece {
  std::shared_ptr<Exchange> exchange;
  size_t index = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_FOLD_EXCHANGE_H_
