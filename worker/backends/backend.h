#ifndef GRADWIRE_WORKER_BACKENDS_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/wire/layout.h"
#include "common/telemetry/trace_span.h"
#include "common/wire/view.h"

namespace grpc {
class Service;
}

namespace gradwire {

// Names one bucket of one step; every rank uses each key once. Of the buckets
// under way a higher one is wanted first: the next forward pass begins with it.
struct ReduceKey {
  Step step;
  Bucket bucket;
};

// What a back end moved, since it was made.
struct TransferTotals {
  uint64_t bytes_sent = 0;  // payload, without headers
  uint64_t bytes_received = 0;
  // Steps in which this rank rounded a finite value to infinity for the wire.
  uint64_t overflow_steps = 0;
};

// How bytes are averaged. One step at a time: all buckets of the layout are
// handed in, each once, in the same order on all ranks, before any of the next step.
//
// The trainer's thread calls; transfers run on threads of the back end's.
class Backend {
 public:
  // Runs once, on a thread of the back end's, with no lock held. Then the
  // back end is through with the spans: no slice refers to them any more.
  //   Aborted            the run was ended (see Cancel)
  //   Unavailable        a peer cannot be reached; the message names it
  //   DeadlineExceeded   names the ranks that are missing, where known
  //   InvalidArgument, DataLoss   a peer's chunk is not what it should be
  using Done = std::function<void(absl::Status)>;

  virtual ~Backend() = default;

  // Called once, before all else, when the view is there. `buckets` is the
  // layout in float32, whatever the wire type (Hello has WireSpecs of it); its
  // indices are the keys'.
  virtual absl::Status OnView(const View& view, std::vector<BucketSpec> buckets) = 0;

  // Averages a float32 bucket over all ranks: reads `terms`, writes `mean`;
  // both have the bucket's size, do not overlap, and stay valid until `done`.
  // `terms` is never written. On error `mean` holds anything.
  virtual void AllReduceAsync(const ReduceKey& key, absl::Span<const float> terms,
                              absl::Span<float> mean, absl::Time deadline, Done done) = 0;

  // Copies rank 0's `bytes` of a bucket of bytes to all ranks, in place.
  virtual void BroadcastAsync(const ReduceKey& key, absl::Span<uint8_t> bytes, absl::Time deadline,
                              Done done) = 0;

  // Ends all transfers under way and to come with `reason` (not OK). From any thread.
  virtual void Cancel(absl::Status reason) = 0;

  // Orderly end after the last step: what neighbours still need is delivered.
  virtual absl::Status Finish(absl::Time deadline) = 0;

  virtual TransferTotals totals() const = 0;

  // The peer that a transfer failed at, if it is known. From any thread.
  virtual absl::optional<Rank> suspect() const { return absl::nullopt; }

  // The service that this worker has to serve for its peers; null if none.
  // Owned by the back end; asked before OnView.
  virtual grpc::Service* service() { return nullptr; }
};

// What every back end is made with; the same on all ranks but for the address.
struct BackendOptions {
  std::string coordinator;  // "host:port"
  // Elements of gradients on the wire: FLOAT32, BFLOAT16 or FLOAT16. Sums are made
  // in float32, and all ranks get the same mean, rounded to this type.
  v1::DType wire = v1::DTYPE_FLOAT32;
  int connections = 1;       // to each aggregator
  OnSpan on_span = nullptr;  // hears of the sums that this process makes
};

// Makes the back end called `name` (see backends.inc); NotFound lists the names.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_BACKEND_H_
