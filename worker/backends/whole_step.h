#ifndef GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_
#define GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/countdown.h"
#include "common/base/ids.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// A bucket of a step that is exchanged at once; see Exchange for both.
struct WholeBucket {
  absl::Span<uint8_t> result;
  std::vector<std::pair<Rank, absl::Span<const uint8_t>>> terms;  // of ranks of this worker
};

// One step of a layout, all of whose buckets are exchanged at once: for what is no training.
// One thread at a time, with whoever else uses the exchange.
class WholeStep {
 public:
  // Hands all buckets in, in their order. `exchange` outlives this object, and what buckets
  // refer to stays valid until Wait has returned.
  WholeStep(Exchange* exchange, LayoutId layout, Step step, absl::Span<const WholeBucket> buckets,
            absl::Time deadline);
  // Waits, if nobody did.
  ~WholeStep() { Wait().IgnoreError(); }
  WholeStep(const WholeStep&) = delete;
  WholeStep& operator=(const WholeStep&) = delete;

  // Waits until all are there. Returns the first error of a bucket (see Exchange::Done). If the
  // exchange says nothing until some time behind the deadline, it is cancelled.
  absl::Status Wait();

 private:
  Exchange* const exchange_;
  const absl::Time deadline_;
  Countdown countdown_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_WHOLE_STEP_H_
