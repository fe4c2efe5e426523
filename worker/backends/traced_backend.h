#ifndef GRADWIRE_WORKER_BACKENDS_TRACED_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_TRACED_BACKEND_H_

#include <memory>

#include "common/telemetry/trace_span.h"
#include "worker/backends/backend.h"

namespace gradwire {

// `backend`, and `on_span` hears of each bucket's transfer, from Expect to its
// done. `on_span` is not empty.
std::unique_ptr<Backend> TraceBackend(std::unique_ptr<Backend> backend, OnSpan on_span);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_TRACED_BACKEND_H_
