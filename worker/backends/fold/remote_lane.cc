#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/support/sync_stream.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/call_guard.h"
#include "common/rpc/channel.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/judge.h"
#include "gradwire/v1/aggregation.grpc.pb.h"
#include "worker/backends/fold/lane.h"

namespace gradwire {
namespace {

using grpc::internal::RpcMethod;

constexpr absl::Duration kMissingTimeout = absl::Seconds(1);

// A Gather and a Scatter call that stay open as long as the view.
class RemoteLane : public Lane {
 public:
  RemoteLane(const LaneContext& context, Endpoint endpoint, const LaneAssignment& assignment)
      : Lane(context),
        endpoint_(std::move(endpoint)),
        assignment_(assignment),
        channel_(MakeChannel(endpoint_.address, context.security, "", endpoint_.silence)),
        gather_(context.view.self),
        scatter_(context.view.self),
        memory_(context.make_memory && endpoint_.worker ? context.make_memory() : nullptr) {
    channel_->GetState(true);  // begins to connect
  }

  absl::Status Connect(const std::function<absl::Status()>& ended) override {
    absl::Status status = WaitConnected(channel_.get(), endpoint_.name, ended);
    if (absl::IsUnavailable(status)) context_.host->OnFailure(status, endpoint_.worker);
    return status;
  }
  void Cancel() override {
    Lane::Cancel();
    gather_.Cancel();
    scatter_.Cancel();
  }
  bool Finish(absl::Time deadline) override {
    queue_.Close();
    if (!AwaitSender(deadline)) return false;
    finished_ = true;
    scatter_.Cancel();
    return true;
  }
  absl::StatusOr<std::vector<Rank>> Missing(LayoutId layout, Step step) override;

 protected:
  void SendAll() override;
  void ReceiveAll() override;

 private:
  bool Send(const OutgoingChunk& piece, grpc::ClientWriter<grpc::ByteBuffer>* writer);
  absl::Status TakeMessage(grpc::ByteBuffer* buffer);
  // Puts the view into a request.
  template <typename Request>
  Request RequestOfView() const;
  void Fail(const absl::Status& status, absl::string_view call);
  // Returns the worker that sums; null if the aggregator is not one.
  const Member* SummingMember() const;

  const Endpoint endpoint_;
  const LaneAssignment assignment_;
  const std::shared_ptr<grpc::Channel> channel_;
  CallContext gather_;
  CallContext scatter_;
  const std::unique_ptr<CallMemory> memory_;  // the sender puts, the receiver finds; may be null
  std::atomic<bool> finished_{false};
};

const Member* RemoteLane::SummingMember() const {
  for (const Member& member : context_.view.members) {
    if (endpoint_.worker == member.incarnation) return &member;
  }
  return nullptr;
}

template <typename Request>
Request RemoteLane::RequestOfView() const {
  Request request;
  request.set_run_id(ToBytes(context_.view.run_id));
  request.set_epoch(context_.view.epoch.value());
  request.set_generation(context_.view.generation.value());
  return request;
}

void RemoteLane::Fail(const absl::Status& status, absl::string_view call) {
  context_.host->OnFailure(Annotate(status, absl::StrCat(call, " ", endpoint_.name)),
                           absl::IsUnavailable(status) ? endpoint_.worker : absl::nullopt);
}

void RemoteLane::SendAll() {
  const RpcMethod method("/gradwire.v1.Aggregation/Gather", RpcMethod::CLIENT_STREAMING, channel_);
  v1::GatherReply reply;
  std::unique_ptr<grpc::ClientWriter<grpc::ByteBuffer>> writer(
      grpc::internal::ClientWriterFactory<grpc::ByteBuffer>::Create(channel_.get(), method,
                                                                    gather_.get(), &reply));
  while (absl::optional<OutgoingChunk> piece = queue_.Pop()) {
    if (!Send(*piece, writer.get())) break;
  }
  writer->WritesDone();
  const absl::Status status = FromGrpc(writer->Finish());
  writer.reset();
  gather_.Release();
  if (!status.ok()) Fail(status, "Gather at");
}

bool RemoteLane::Send(const OutgoingChunk& piece, grpc::ClientWriter<grpc::ByteBuffer>* writer) {
  Chunk term = TermOf(piece);
  const absl::Span<const uint8_t> bytes = term.payload.front();
  if (memory_ != nullptr && memory_->Put(context_.view, *endpoint_.worker, bytes, &term.header)) {
    return writer->Write(EncodeChunk(term.header, {}));
  }
  term.header.checksum = Checksum(term.payload);
  grpc::Slice payload = SliceOwnedBy(std::move(term.owner), bytes.data(), bytes.size());
  if (!writer->Write(EncodeChunk(term.header, {std::move(payload)}))) return false;
  context_.host->OnSent(bytes.size());
  return true;
}

void RemoteLane::ReceiveAll() {
  const RpcMethod method("/gradwire.v1.Aggregation/Scatter", RpcMethod::SERVER_STREAMING, channel_);
  auto request = RequestOfView<v1::ScatterRequest>();
  request.set_lane(assignment_.lane);
  request.set_lanes(assignment_.lanes);
  request.set_by_bucket(assignment_.by_bucket);
  request.set_incarnation(context_.view.self.value());
  std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel_.get(), method,
                                                                    scatter_.get(), request));
  grpc::ByteBuffer buffer;
  while (reader->Read(&buffer)) {
    if (absl::Status taken = TakeMessage(&buffer); !taken.ok()) Fail(taken, "Scatter from");
    buffer.Clear();
  }
  absl::Status status = FromGrpc(reader->Finish());
  if (finished_) return;
  if (status.ok()) status = absl::UnavailableError("the peer ended the stream early");
  Fail(status, "Scatter from");
}

absl::Status RemoteLane::TakeMessage(grpc::ByteBuffer* buffer) {
  absl::StatusOr<Chunk> chunk = DecodeChunk(buffer);
  if (!chunk.ok()) return chunk.status();
  if (chunk->header.slot != 0 && memory_ != nullptr) {
    if (absl::Status found = memory_->Find(context_.view, SummingMember(), &*chunk); !found.ok()) {
      return found;
    }
    return Take(*chunk);
  }
  if (absl::Status payload = CheckPayload(*chunk); !payload.ok()) return payload;
  context_.host->OnReceived(TotalBytes(chunk->payload));
  return Take(*chunk);
}

absl::StatusOr<std::vector<Rank>> RemoteLane::Missing(LayoutId layout, Step step) {
  auto request = RequestOfView<v1::MissingRequest>();
  request.set_layout(layout.value());
  request.set_step(step.value());
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + kMissingTimeout));
  v1::MissingReply reply;
  const absl::Status status =
      FromGrpc(v1::Aggregation::NewStub(channel_)->Missing(&context, request, &reply));
  if (!status.ok()) return Annotate(status, absl::StrCat(endpoint_.name, " does not answer"));
  std::vector<Rank> ranks;
  for (uint32_t rank : reply.ranks()) ranks.emplace_back(static_cast<int>(rank));
  return ranks;
}

}  // namespace

std::unique_ptr<Lane> MakeRemoteLane(const LaneContext& context, Endpoint endpoint,
                                     const LaneAssignment& assignment) {
  return std::make_unique<RemoteLane>(context, std::move(endpoint), assignment);
}

}  // namespace gradwire
