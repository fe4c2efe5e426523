#ifndef GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_
#define GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// A bucket of a step that is exchanged at once; see Exchange for both.
struct WholeBucket {
  absl::Span<uint8_t> result;
  std::vector<std::pair<Rank, absl::Span<const uint8_t>>> terms;  // of ranks of this worker
};

// Exchanges all buckets of one step of a layout, in their order, and waits until all are
// there: for what is no training. One thread at a time, with whoever else uses the exchange.
// Returns the first error of a bucket (see Exchange::Done). If the exchange says nothing until
// some time behind `deadline`, it is cancelled.
absl::Status ExchangeWhole(Exchange* exchange, LayoutId layout, Step step,
                           absl::Span<const WholeBucket> buckets, absl::Time deadline);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_
