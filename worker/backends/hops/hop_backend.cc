#include "worker/backends/hops/hop_backend.h"

#include <utility>

#include "common/base/clock.h"

namespace gradwire {
namespace {

// How often a stream that waits for the view checks that its caller still exists.
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);

}  // namespace

class HopBackend::Connected : public HopExchange {
 public:
  Connected(HopBackend* backend, const View& view)
      : HopExchange(&backend->topology_, view, backend->options_), backend_(backend) {}
  ~Connected() override {
    Cancel(absl::CancelledError("the exchange is over"));
    backend_->Forget();
  }

 private:
  HopBackend* const backend_;
};

HopBackend::HopBackend(const Topology& topology, const BackendOptions& options)
    : topology_(topology), options_(options), service_(this) {}

absl::StatusOr<std::unique_ptr<Exchange>> HopBackend::Connect(
    const View& view, const Ended& ended, absl::optional<Incarnation>* suspect) {
  auto exchange = std::make_unique<Connected>(this, view);
  {
    MutexLock lock(&mutex_);
    exchange_ = exchange.get();
    changed_.NotifyAll();
  }
  if (absl::Status started = exchange->Start(ended); !started.ok()) {
    if (const auto who = exchange->suspect()) *suspect = who->worker;
    return started;
  }
  return exchange;
}

void HopBackend::Forget() {
  MutexLock lock(&mutex_);
  exchange_ = nullptr;
  while (using_ > 0) changed_.Wait(&mutex_);
}

bool HopBackend::IsToCome(const ChunkHeader& chunk) const {
  if (exchange_ == nullptr) return true;
  const View& view = exchange_->view();
  return chunk.run_id == view.run_id && view.generation < chunk.generation;
}

absl::StatusOr<HopExchange*> HopBackend::Borrow(const NeighborStream& stream,
                                                const ChunkHeader& chunk) {
  MutexLock lock(&mutex_);
  while (IsToCome(chunk)) {
    changed_.WaitWithDeadline(&mutex_, SteadyNow() + kLookSlice);
    if (stream.is_gone()) return absl::CancelledError("the neighbor has gone");
  }
  ++using_;
  return exchange_;
}

void HopBackend::Return() {
  MutexLock lock(&mutex_);
  --using_;
  changed_.NotifyAll();
}

bool HopBackend::Knows(const NeighborStream& stream) {
  // Every member of a future view is a member of this view.
  absl::StatusOr<HopExchange*> exchange = Borrow(stream, ChunkHeader());
  if (!exchange.ok()) return false;
  const bool knows = stream.is_member((*exchange)->view());
  Return();
  return knows;
}

absl::Status HopBackend::OnChunk(const NeighborStream& stream, Chunk chunk) {
  absl::StatusOr<HopExchange*> exchange = Borrow(stream, chunk.header);
  if (!exchange.ok()) return exchange.status();
  absl::Status status =
      stream.authority->Check((*exchange)->view(), chunk.header.generation, chunk.header.rank);
  if (status.ok()) status = (*exchange)->OnChunk(stream.id, std::move(chunk));
  Return();
  return status;
}

void HopBackend::OnEnd(const NeighborStream& stream, const absl::Status& status) {
  HopExchange* exchange;
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
  return std::make_unique<RingBackend>(options);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeTreeBackend(const BackendOptions& options) {
  return std::make_unique<HopBackend>(TreeTopology(), options);
}

}  // namespace gradwire
