#ifndef GRADWIRE_WORKER_BACKENDS_TRANSFER_H_
#define GRADWIRE_WORKER_BACKENDS_TRANSFER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "worker/backends/backend.h"

namespace gradwire {

// One bucket that a back end is working on.
struct Transfer {
  ReduceKey key;
  BucketSpec spec;
  absl::Span<const uint8_t> terms;  // what this rank puts in
  absl::Span<uint8_t> result;       // where the mean, or rank 0's bytes, go
  absl::Time deadline;
  Backend::Done done;
};

Transfer MakeReduce(const ReduceKey& key, absl::Span<const float> terms, absl::Span<float> mean,
                    absl::Time deadline, Backend::Done done);
Transfer MakeBroadcast(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                       Backend::Done done);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRANSFER_H_
