#include "worker/backends/ring/ring_backend.h"

#include <utility>

#include "common/base/clock.h"

namespace gradwire {
namespace {

// How often a stream that waits for the view looks whether its caller is still there.
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);

}  // namespace

class RingBackend::Connected : public RingExchange {
 public:
  Connected(RingBackend* backend, const View& view)
      : RingExchange(view, backend->wire_), backend_(backend) {}
  ~Connected() override {
    Cancel(absl::CancelledError("the exchange is over"));
    backend_->Forget();
  }

 private:
  RingBackend* const backend_;
};

RingBackend::RingBackend(v1::DType wire) : wire_(wire), service_(this) {}

absl::StatusOr<std::unique_ptr<Exchange>> RingBackend::Connect(
    const View& view, const Ended& ended, absl::optional<Incarnation>* suspect) {
  auto exchange = std::make_unique<Connected>(this, view);
  {
    MutexLock lock(&mutex_);
    exchange_ = exchange.get();
    changed_.NotifyAll();
  }
  if (absl::Status started = exchange->Start(ended); !started.ok()) {
    *suspect = exchange->suspect();
    return started;
  }
  return exchange;
}

void RingBackend::Forget() {
  MutexLock lock(&mutex_);
  exchange_ = nullptr;
  while (using_ > 0) changed_.Wait(&mutex_);
}

absl::StatusOr<RingExchange*> RingBackend::Borrow(const LeftStream& stream) {
  MutexLock lock(&mutex_);
  while (exchange_ == nullptr) {
    changed_.WaitWithDeadline(&mutex_, SteadyNow() + kLookSlice);
    if (stream.is_gone()) return absl::CancelledError("the left neighbour went away");
  }
  ++using_;
  return exchange_;
}

void RingBackend::Return() {
  MutexLock lock(&mutex_);
  --using_;
  changed_.NotifyAll();
}

absl::Status RingBackend::OnChunk(const LeftStream& stream, Chunk chunk) {
  absl::StatusOr<RingExchange*> exchange = Borrow(stream);
  if (!exchange.ok()) return exchange.status();
  absl::Status status = (*exchange)->OnChunk(stream.id, std::move(chunk));
  Return();
  return status;
}

void RingBackend::OnEnd(const LeftStream& stream, const absl::Status& status) {
  RingExchange* exchange;
  {
    MutexLock lock(&mutex_);
    if (exchange_ == nullptr) return;
    exchange = exchange_;
    ++using_;
  }
  exchange->OnEnd(stream.id, status);
  Return();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options) {
  return std::make_unique<RingBackend>(options.wire);
}

}  // namespace gradwire
