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
#include "common/compress/compression.h"
#include "common/rpc/security.h"
#include "common/telemetry/trace_log.h"
#include "common/wire/layout.h"
#include "common/wire/view.h"
#include "worker/backends/exchange.h"

namespace gradwire {

// How bytes are averaged. A process makes one, serves its service, and lets it make an
// Exchange for each view that it becomes part of.
class Backend {
 public:
  // Asked while something is waited for; not OK: the wait ends with this status.
  using Ended = std::function<absl::Status()>;

  virtual ~Backend() = default;

  // Connects this worker with the others of `view`. The exchange is new for each view, and
  // nothing of an earlier one is in it; that one is destroyed first. The back end outlives
  // it. Errors: that of `ended`; Unavailable names the peer that cannot be reached, and
  // `suspect` then is that worker; FailedPrecondition or InvalidArgument if this back end
  // cannot serve such a view.
  virtual absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      const View& view, const Ended& ended, absl::optional<Incarnation>* suspect) = 0;

  // What this worker has to serve for its peers. Owned by the back end. Calls of a view that
  // is still to come wait for it.
  virtual std::vector<grpc::Service*> services() { return {}; }
};

// What every back end is made with; the same on all workers but for the address.
struct BackendOptions {
  std::string coordinator;  // "host:port"
  // Elements of gradients on the wire: FLOAT32, BFLOAT16, FLOAT16 or a coded type. Sums are made
  // in float32, and all ranks get the same mean, rounded to this type.
  v1::DType wire = v1::DTYPE_FLOAT32;
  // How terms and means become shorter; coded only where the row's `codecs` is true. If it is on,
  // `wire` is its dtype.
  Compression compression = {};
  int connections = 1;  // to each aggregator, which share each bucket; with 1 group
  // Bucket i is of group i mod groups: groups share no connection, and none waits for another.
  int groups = 1;
  // Where it has both: rank 0 gathers, averages and scatters, in place of an all-reduce.
  bool gathers = false;
  OnSpan on_span = nullptr;  // hears of the sums that this process makes
  Security security = {};    // of its calls
};

// Makes the back end called `name`, which is a row of backends.inc, or kAutoBackend: one that
// serves each view by the row that ChosenBackend names. NotFound lists the names.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options);

// The row that serves `view` where back end `name` was asked for.
std::string ChosenBackend(absl::string_view name, const View& view);

// `backend`, and `on_span` hears of each bucket's transfer, from Expect to its
// done. `on_span` is not empty.
std::unique_ptr<Backend> TraceBackend(std::unique_ptr<Backend> backend, OnSpan on_span);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_BACKEND_H_
