#include "worker/backends/memory/memory_backend.h"

namespace gradwire {

MemoryWire MemoryWireOf(const BackendOptions& options) { return {options.wire, !options.gathers}; }

MemoryBackend::MemoryBackend(const BackendOptions& options)
    : wire_(MemoryWireOf(options)), compressors_(options.compression), on_span_(options.on_span) {}

absl::StatusOr<std::unique_ptr<MemoryExchange>> MemoryBackend::ConnectMemory(const View& view) {
  if (!view.SharesMemory()) {
    return absl::FailedPreconditionError(
        "back end memory: got workers that do not share memory, expected all on one host, of one "
        "user, outside containers of their own, with --shared-memory auto");
  }
  auto exchange = std::make_unique<MemoryExchange>(view, wire_, &compressors_, on_span_);
  if (absl::Status started = exchange->Start(); !started.ok()) return started;
  return exchange;
}

absl::StatusOr<std::unique_ptr<Exchange>> MemoryBackend::Connect(const View& view, const Ended&,
                                                                 absl::optional<Incarnation>*) {
  absl::StatusOr<std::unique_ptr<MemoryExchange>> exchange = ConnectMemory(view);
  if (!exchange.ok()) return exchange.status();
  return std::unique_ptr<Exchange>(*std::move(exchange));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeMemoryBackend(const BackendOptions& options) {
  return std::make_unique<MemoryBackend>(options);
}

}  // namespace gradwire
