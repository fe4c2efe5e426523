#ifndef GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/compress/compression_totals.h"
#include "common/wire/chunk.h"
#include "common/wire/layout.h"
#include "common/wire/slice_lender.h"

namespace gradwire {

// Names one bucket of one step of one layout. Of the buckets under way a higher one is
// wanted first: the next forward pass begins with it.
struct BucketKey {
  LayoutId layout;
  Step step;
  Bucket bucket;

  friend bool operator<(const BucketKey& a, const BucketKey& b) {
    return std::tie(a.layout, a.step, a.bucket) < std::tie(b.layout, b.step, b.bucket);
  }
  friend bool operator==(const BucketKey& a, const BucketKey& b) {
    return std::tie(a.layout, a.step, a.bucket) == std::tie(b.layout, b.step, b.bucket);
  }
};

// "step 3, bucket 2", with the layout in front unless it is 0: for messages.
std::string ToString(const BucketKey& key);

// What an exchange moved, since it was made.
struct TransferTotals {
  uint64_t bytes_sent = 0;  // payload, without headers; what stays in the process is not counted
  uint64_t bytes_received = 0;
  // Steps in which a rank of this worker rounded a finite value to infinity for the wire.
  uint64_t overflow_steps = 0;
  // Of the bytes sent, those from one rank to another, where bytes go from rank to rank.
  std::map<std::pair<Rank, Rank>, uint64_t> sent_on = {};
  // Of a model that is served: the clocks of the slowest and the fastest rank, as the last answer
  // told them.
  ChunkClocks clocks = {};
  CompressionTotals compressed = {};
};

// A worker at which transfers failed. With an Aborted `failure` it has ended a call, as it also
// does when it misses another one itself. With DeadlineExceeded its part did not come in time,
// perhaps because it waits itself.
struct Suspect {
  Incarnation worker;
  absl::Status failure;
  absl::Time at;                         // of SteadyNow, before the exchange ended its own calls
  std::vector<Incarnation> others = {};  // whose parts did not come either
};

// The exchange of buckets between the workers of one view; see Backend::Connect. A bucket is
//
//   Expect ─► Contribute, once for each rank that this worker carries ─► done
//
// Of each layout one step at a time: all its buckets are expected, each once, in the
// same order on all workers, before any of the next step. Steps count from the view's first.
//
// One thread calls Expect and Contribute; transfers run on threads of the exchange's.
class Exchange {
 public:
  // Runs once, on a thread of the exchange's, with no lock held. Then the exchange is
  // through with the spans of the bucket: no slice refers to them any more.
  //   Aborted            the run was ended (see Cancel), or a peer has ended a call
  //   Unavailable        a peer cannot be reached; the message names it
  //   DeadlineExceeded   names the ranks that are missing, where known
  //   InvalidArgument, DataLoss   a peer's chunk is not what it should be
  using Done = std::function<void(absl::Status)>;

  // Ends all transfers with Cancelled.
  virtual ~Exchange() = default;

  // Makes a layout known, once all workers have declared the same. `buckets` are in
  // float32, whatever the wire type (what was declared is WireSpecs of it); their indices
  // are the keys'.
  virtual void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) = 0;

  // Where the result of a bucket goes: the mean of all ranks' terms in float32, or the
  // bytes of the root. `result` has the bucket's size and stays valid until `done`; on
  // error it holds anything. The span of terms and that of the result of a bucket of bytes
  // may be the same; others do not overlap.
  virtual void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                      Done done) = 0;

  // What `rank`, which this worker carries, puts into a bucket that is expected. `terms` has
  // the bucket's size, is never written, and stays valid and unchanged until `done`. Of a
  // bucket of bytes only the root contributes; of a model that is served all ranks do.
  virtual void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) = 0;

  // The learning rate that goes with what is contributed from now on, to a model that is served.
  virtual void SetRate(double /*rate*/) {}

  // Ends all transfers under way and to come with `reason` (not OK). From any thread.
  virtual void Cancel(absl::Status reason) = 0;

  // Orderly end after the last step: what peers still need is delivered.
  virtual absl::Status Finish(absl::Time deadline) = 0;

  virtual TransferTotals totals() const = 0;

  // The worker that a transfer failed at, if it is known. From any thread.
  virtual absl::optional<Suspect> suspect() const { return absl::nullopt; }
};

// Payload bytes that crossed the network. Thread-safe.
struct Traffic {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

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
  BlockingCounter countdown_;
};

// One bucket that an exchange has under way, from Expect to its done. A back end derives
// from it what it has to know besides.
struct Transfer {
  Transfer(const BucketKey& key, const BucketSpec& spec, absl::Span<uint8_t> result,
           absl::Time deadline, Exchange::Done done)
      : key(key), spec(spec), result(result), deadline(deadline), done(std::move(done)) {}
  virtual ~Transfer() = default;

  const BucketKey key;
  const BucketSpec spec;             // on the wire
  const absl::Span<uint8_t> result;  // float32, or the root's bytes
  const absl::Time deadline;
  const Exchange::Done done;
  SliceLender lender;  // of the memory that is sent from: terms, sums
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_
