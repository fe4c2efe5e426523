#ifndef GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_
#define GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
#include "worker/backends/kept_values.h"

namespace gradwire {

// Names one bucket of one step of one layout. The highest bucket goes first, because the next
// forward pass begins with it.
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

// Returns "step 3, bucket 2", after the layout unless it is 0, for messages.
std::string ToString(const BucketKey& key);

// Traffic of an exchange since it was made.
struct TransferTotals {
  uint64_t bytes_sent =
      0;  // payload without headers; data that stays in the process is not counted
  uint64_t bytes_received = 0;
  // Steps in which the wire type turned a finite value of a rank of this worker into infinity.
  uint64_t overflow_steps = 0;
  // Part of the bytes sent, by link, if data goes from rank to rank.
  std::map<std::pair<Rank, Rank>, uint64_t> sent_on = {};
  // For a served model: clocks of the slowest and the fastest rank in the last answer.
  ChunkClocks clocks = {};
  CompressionTotals compressed = {};
};

// A worker at which transfers failed. Aborted: it ended a call, as it does if it misses another
// worker itself. DeadlineExceeded: its part did not arrive in time, perhaps because it waits
// itself.
struct Suspect {
  Incarnation worker;
  absl::Status failure;
  absl::Time at;  // time of SteadyNow, before the exchange ended its own calls
  std::vector<Incarnation> others = {};  // whose parts did not arrive either
};

// Exchanges buckets between the workers of one view; see Backend::Connect. A bucket goes through
//
//   Expect ─► Contribute, once for each rank that this worker carries ─► done
//
// A layout has one step at a time: all its buckets are expected, each once, in the same order on
// all workers, before any of the next step. Steps count from the view's first.
//
// One thread calls Expect and Contribute; transfers run on the exchange's threads.
class Exchange {
 public:
  // Runs once, on a thread of the exchange, with no lock held. From then on the exchange does not
  // use the spans of the bucket, and no slice refers to them.
  //   Aborted            the run was ended (see Cancel), or a peer ended a call
  //   Unavailable        a peer cannot be reached; the message names it
  //   DeadlineExceeded   names the missing ranks, if they are known
  //   InvalidArgument, DataLoss   a peer's chunk is not valid
  using Done = std::function<void(absl::Status)>;

  // Ends all transfers with Cancelled.
  virtual ~Exchange() = default;

  // Adds a layout that all workers have declared. `buckets` are in float32, whatever the wire type
  // (the workers declared its WireSpecs); the index of a bucket is its key.
  virtual void AddLayout(LayoutId layout, std::vector<BucketSpec> buckets) = 0;

  // Says where the result of a bucket goes: the mean of all ranks' terms in float32, or the bytes
  // of the root. `result` has the bucket's size and stays valid until `done`; after an error its
  // content is undefined. The terms and the result of a bucket of bytes may be the same span;
  // others must not overlap.
  virtual void Expect(const BucketKey& key, absl::Span<uint8_t> result, absl::Time deadline,
                      Done done) = 0;

  // Contributes the terms of `rank`, which this worker carries, to an expected bucket. `terms` has
  // the bucket's size, is never written, and stays valid and unchanged until `done`. Only the root
  // contributes to a bucket of bytes, but all ranks if the model is served.
  virtual void Contribute(const BucketKey& key, Rank rank, absl::Span<const uint8_t> terms) = 0;

  // Memory that an exchange offers for terms or results, so that it copies nothing. `owner` keeps
  // it mapped, for longer than the exchange if it must.
  struct Memory {
    absl::Span<uint8_t> bytes = {};  // of the bucket's size; empty: the exchange offers none
    std::shared_ptr<const void> owner = nullptr;
  };

  // Return memory for a bucket of an added layout. Contribute and Expect accept any memory, and
  // copy unless they get exactly this. On the thread that calls Expect.
  //   terms   of a rank of this worker, zero at first. Like all terms they must not change from
  //           Contribute to `done`
  //   result  only for reading: writing to it ends the process. It may be read from `done` until
  //           this worker contributes to the bucket in the next step, and after a new view as long
  //           as it is kept
  virtual Memory TermsMemory(LayoutId /*layout*/, Bucket /*bucket*/, Rank /*rank*/) { return {}; }
  virtual Memory ResultMemory(LayoutId /*layout*/, Bucket /*bucket*/) { return {}; }

  // Sets the learning rate of later contributions to a served model.
  virtual void SetRate(double /*rate*/) {}

  // Ends all transfers, now and later, with `reason` (not OK). From any thread.
  virtual void Cancel(absl::Status reason) = 0;

  // Returns what it keeps of a layout from step to step. The caller may read and change the values
  // between two steps: after all buckets of one are done, on the thread that contributes, before it
  // contributes to the next.
  virtual std::vector<KeptValues> Kept(LayoutId /*layout*/) { return {}; }

  // Ends in order after the last step: delivers the data that peers still need.
  virtual absl::Status Finish(absl::Time deadline) = 0;

  virtual TransferTotals totals() const = 0;

  // Returns the worker at which a transfer failed, if it is known. From any thread.
  virtual absl::optional<Suspect> suspect() const { return absl::nullopt; }
};

// Payload bytes that crossed the network. Thread-safe.
struct Traffic {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

// A bucket of a WholeStep.
struct WholeBucket {
  absl::Span<uint8_t> result;
  std::vector<std::pair<Rank, absl::Span<const uint8_t>>> terms;  // of ranks of this worker
};

// A step of a layout that exchanges all buckets at once; not for training. One thread at a time,
// including other users of the exchange.
class WholeStep {
 public:
  // Contributes all buckets, in order. `exchange` must outlive this object. The memory of `buckets`
  // must stay valid until Wait has returned.
  WholeStep(Exchange* exchange, LayoutId layout, Step step, absl::Span<const WholeBucket> buckets,
            absl::Time deadline);
  // Waits, unless Wait was called.
  ~WholeStep() { Wait().IgnoreError(); }
  WholeStep(const WholeStep&) = delete;
  WholeStep& operator=(const WholeStep&) = delete;

  // Waits for all buckets. Returns the first error of a bucket (see Exchange::Done). Cancels the
  // exchange if it stays silent for some time after the deadline.
  absl::Status Wait();

 private:
  Exchange* const exchange_;
  const absl::Time deadline_;
  BlockingCounter countdown_;
};

// A bucket that is under way, from Expect to its done. Back ends derive from it to add their own
// data.
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
  SliceLender lender;  // of the memory that is sent: terms, sums
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_EXCHANGE_H_
