#include "common/state_transfer/state_service.h"

#include <algorithm>

#include "common/base/status_util.h"
#include "common/wire/view.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

using PieceWriter = grpc::ServerWriter<v1::StatePiece>;

// Cancelled if the caller is gone: it hears no status any more.
absl::Status SendRange(const v1::StateRange& range, SharedState* state, PieceWriter* writer) {
  v1::StatePiece piece;
  for (uint64_t sent = 0; sent < range.bytes();) {
    const uint64_t bytes = std::min(kStatePieceBytes, range.bytes() - sent);
    std::string& data = *piece.mutable_data();
    data.resize(bytes);
    auto* const to = reinterpret_cast<uint8_t*>(&data[0]);
    const absl::Status read =
        state->Read(range.section(), range.key(), range.begin() + sent, {to, bytes});
    if (!read.ok()) return read;
    piece.set_checksum(Xxh3InUse().whole(to, bytes));
    if (!writer->Write(piece)) return absl::CancelledError("the caller is gone");
    sent += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<SharedState>> StateService::FindState(const v1::StateId& id) const {
  const absl::StatusOr<RunId> run_id = RunIdFromBytes(id.run_id());
  if (!run_id.ok()) return run_id.status();
  return find_(*run_id, Step(id.step()), Generation(id.generation()));
}

grpc::Status StateService::Describe(grpc::ServerContext*, const v1::StateId* id,
                                    v1::StateCatalog* catalog) {
  const auto state = FindState(*id);
  if (!state.ok()) return ToGrpc(state.status());
  *catalog = (*state)->catalog();
  return grpc::Status::OK;
}

grpc::Status StateService::Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                                 PieceWriter* writer) {
  const auto state = FindState(request->id());
  if (!state.ok()) return ToGrpc(state.status());
  for (const v1::StateRange& range : request->ranges()) {
    const absl::Status sent = SendRange(range, state->get(), writer);
    if (!sent.ok()) return ToGrpc(sent);
  }
  return grpc::Status::OK;
}

}  // namespace gradwire
