#include "worker/backends/hops/hop_backend.h"

#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/wire/chunk_codec.h"

namespace gradwire {
namespace {

// How often a stream that waits for the view checks that its caller still exists.
constexpr absl::Duration kLookSlice = absl::Milliseconds(100);
// For a stranger to send a chunk that is taken.
constexpr absl::Duration kPatience = absl::Seconds(1);

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

// Registered manually for byte buffers, as in aggregation_service.cc.
HopBackend::HopBackend(const Topology& topology, const BackendOptions& options)
    : topology_(topology), options_(options), guard_(kPatience) {
  using Handler =
      grpc::internal::BidiStreamingHandler<HopBackend, grpc::ByteBuffer, v1::NeighborReply>;
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/gradwire.v1.Neighbor/Stream", grpc::internal::RpcMethod::BIDI_STREAMING,
      new Handler([](HopBackend* backend, grpc::ServerContext* context,
                     Stream* stream) { return backend->Serve(context, stream); },
                  this)));
}

grpc::Status HopBackend::Serve(grpc::ServerContext* context, Stream* stream) {
  const StreamId id(++last_id_);
  bool taken = false;
  std::optional<CallGuard::Watch> watch;
  if (!SaysWho(*context) || !Knows(*context)) watch.emplace(&guard_, context);
  absl::Status status = TakeAll(id, context, stream, &watch, &taken);
  const bool broke = context->IsCancelled();
  if (status.ok() && broke) {
    // Or the sender has ended it; this side sees no difference.
    status = absl::AbortedError(absl::StrCat("its stream from ", context->peer(), " broke"));
  }
  if (taken) {
    OnEnd(id, status);
  } else if (!status.ok() && !broke) {
    spdlog::warn("refused a stream from {}: {}", context->peer(), status.ToString());
  }
  return ToGrpc(status);
}

absl::Status HopBackend::TakeAll(StreamId id, grpc::ServerContext* context, Stream* stream,
                                 std::optional<CallGuard::Watch>* watch, bool* taken) {
  Authority authority(context);
  grpc::ByteBuffer buffer;
  while (stream->Read(&buffer)) {
    absl::StatusOr<Chunk> chunk = DecodeChunk(&buffer);
    buffer.Clear();
    if (!chunk.ok()) return chunk.status();
    absl::Status status = OnChunk(id, *context, &authority, *std::move(chunk));
    if (!status.ok()) return status;
    *taken = true;
    watch->reset();
  }
  return absl::OkStatus();
}

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

absl::StatusOr<HopExchange*> HopBackend::Borrow(const grpc::ServerContext& context,
                                                const ChunkHeader& chunk) {
  MutexLock lock(&mutex_);
  while (IsToCome(chunk)) {
    changed_.WaitWithDeadline(&mutex_, SteadyNow() + kLookSlice);
    if (context.IsCancelled()) return absl::CancelledError("the neighbor has gone");
  }
  ++using_;
  return exchange_;
}

void HopBackend::Return() {
  MutexLock lock(&mutex_);
  --using_;
  changed_.NotifyAll();
}

bool HopBackend::Knows(const grpc::ServerContext& context) {
  // Every member of a future view is a member of this view.
  absl::StatusOr<HopExchange*> exchange = Borrow(context, ChunkHeader());
  if (!exchange.ok()) return false;
  const bool knows = IsMember(context, (*exchange)->view());
  Return();
  return knows;
}

absl::Status HopBackend::OnChunk(StreamId id, const grpc::ServerContext& context,
                                 Authority* authority, Chunk chunk) {
  absl::StatusOr<HopExchange*> exchange = Borrow(context, chunk.header);
  if (!exchange.ok()) return exchange.status();
  absl::Status status =
      authority->Check((*exchange)->view(), chunk.header.generation, chunk.header.rank);
  if (status.ok()) status = (*exchange)->OnChunk(id, std::move(chunk));
  Return();
  return status;
}

void HopBackend::OnEnd(StreamId id, const absl::Status& status) {
  HopExchange* exchange;
  {
    MutexLock lock(&mutex_);
    if (exchange_ == nullptr) return;
    exchange = exchange_;
    ++using_;
  }
  exchange->OnEnd(id, status);
  Return();
}

absl::StatusOr<std::unique_ptr<Backend>> MakeRingBackend(const BackendOptions& options) {
  return std::make_unique<RingBackend>(options);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeTreeBackend(const BackendOptions& options) {
  return std::make_unique<HopBackend>(TreeTopology(), options);
}

}  // namespace gradwire
