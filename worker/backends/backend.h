#ifndef GRADWIRE_WORKER_BACKENDS_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_BACKEND_H_

namespace grpc {
class Service;
}
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/compress/compression.h"
#include "common/rpc/security.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// Averages bytes. A process makes one back end, serves its service, and gets an Exchange from it
// for each view that it joins.
class Backend {
 public:
  // Called during waits, while the exchange exists; if not OK, the wait ends with this status.
  using Ended = std::function<absl::Status()>;

  virtual ~Backend() = default;

  // Connects this worker with the others of `view`. Each view has a new exchange, without anything
  // of an earlier one, which must be destroyed first. The back end must outlive the exchange.
  // Errors: the status of `ended`; Unavailable, with `suspect`, names the peer that cannot be
  // reached; FailedPrecondition or InvalidArgument if this back end cannot serve such a view.
  virtual absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      const View& view, const Ended& ended, absl::optional<Incarnation>* suspect) = 0;

  // Returns the services that this worker must serve for its peers. The back end owns them. Calls
  // of a future view wait for it.
  virtual std::vector<grpc::Service*> services() { return {}; }
};

// Options of every back end; equal on all workers except for the address.
struct BackendOptions {
  std::string coordinator;  // "host:port"
  // Type of gradients on the wire: FLOAT32, BFLOAT16, FLOAT16 or a coded type. Sums are made in
  // float32. All ranks get the same mean, rounded to this type.
  v1::DType wire = v1::DTYPE_FLOAT32;
  // Compression of terms and means; coded only if the row's `codecs` is true. If it is on, `wire`
  // is its dtype.
  Compression compression = {};
  int connections = 1;  // to each aggregator; each bucket is divided among them; with 1 group
  // Bucket i is in group i mod groups. Groups share no connection, and none waits for another.
  int groups = 1;
  // If the back end can do both: rank 0 gathers, averages and scatters, instead of an all-reduce.
  bool gathers = false;
  // Whether payloads between two workers of a host go through their memory.
  bool slots = false;
  OnSpan on_span = nullptr;  // gets the sums that this process computes
  Security security = {};    // for its calls
};

// Makes the back end `name`: a row of backends.inc, or kAutoBackend, which serves each view by the
// row of ChosenBackend. NotFound lists the names.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options);

// Returns the row that serves `view` for back end `name`, if `buckets`, in float32 and bytes, are
// its first layout; of `options`, `wire` and `gathers` count.
std::string ChosenBackend(absl::string_view name, const View& view, const BackendOptions& options,
                          absl::Span<const BucketSpec> buckets = {});

// Returns the ranks that such an exchange of `view` connects through memory, ascending, a group for
// each host. A worker beyond a limit of memory takes the network all the same, and logs it.
std::vector<std::vector<Rank>> GroupsInMemory(absl::string_view name, const View& view,
                                              const BackendOptions& options,
                                              absl::Span<const BucketSpec> buckets = {});
// Returns the row of ChosenBackend as pages show it, with those groups if there is a network, too:
// "ring, in memory among ranks 0-1 and 2-3".
std::string DescribeBackend(absl::string_view name, const View& view, const BackendOptions& options,
                            absl::Span<const BucketSpec> buckets = {});

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_BACKEND_H_
