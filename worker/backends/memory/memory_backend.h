#ifndef GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BACKEND_H_
#define GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/backends/backend.h"
#include "worker/backends/compressors.h"
#include "worker/backends/memory/memory_exchange.h"

namespace gradwire {

// Returns how values are rounded: like the back end that `auto` takes between hosts.
MemoryWire MemoryWireOf(const BackendOptions& options);

// The workers of one host fold in memory that they share; see MemoryExchange.
class MemoryBackend : public Backend {
 public:
  explicit MemoryBackend(const BackendOptions& options);

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const View& view, const Ended& ended,
                                                    absl::optional<Incarnation>* suspect) override;
  // The same, by its type. FailedPrecondition: the workers of the view do not share memory.
  absl::StatusOr<std::unique_ptr<MemoryExchange>> ConnectMemory(const View& view);

 private:
  const MemoryWire wire_;
  Compressors compressors_;  // outlive the views
  const OnSpan on_span_;
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_MEMORY_MEMORY_BACKEND_H_
