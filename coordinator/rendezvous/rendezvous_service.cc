#include "coordinator/rendezvous/rendezvous_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/wire/view.h"

namespace gradwire {
namespace {

// How often a waiting call checks whether its caller still exists.
constexpr absl::Duration kLookInterval = absl::Milliseconds(500);

template <typename Repeated>
RendezvousStore::Keys KeysOf(const Repeated& keys) {
  return {keys.begin(), keys.end()};
}

grpc::Status Answer(absl::StatusOr<RendezvousStore::Entries> entries, v1::Entries* reply) {
  if (!entries.ok()) return ToGrpc(entries.status());
  for (auto& [key, value] : *entries) {
    v1::Entry* entry = reply->add_entries();
    entry->set_key(std::move(key));
    entry->set_value(std::move(value));
  }
  return grpc::Status::OK;
}

}  // namespace

RendezvousService::RendezvousService(const RunId& run_id, RendezvousStore* store)
    : run_id_(run_id), store_(store) {}

absl::Status RendezvousService::CheckRun(const std::string& run_id) const {
  const absl::StatusOr<RunId> id = RunIdFromBytes(run_id);
  if (!id.ok()) return id.status();
  if (*id == run_id_) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("got run ", ToHex(*id), ", expected run ", ToHex(run_id_)));
}

grpc::Status RendezvousService::Set(grpc::ServerContext*, const v1::SetRequest* request,
                                    v1::SetReply*) {
  if (absl::Status run = CheckRun(request->run_id()); !run.ok()) return ToGrpc(run);
  return ToGrpc(store_->Set(request->key(), request->value()));
}

grpc::Status RendezvousService::Get(grpc::ServerContext*, const v1::GetRequest* request,
                                    v1::Entries* reply) {
  if (absl::Status run = CheckRun(request->run_id()); !run.ok()) return ToGrpc(run);
  return Answer(store_->Get(KeysOf(request->keys())), reply);
}

absl::StatusOr<RendezvousStore::Entries> RendezvousService::WaitForKeys(
    const grpc::ServerContext& context, const RendezvousStore::Keys& keys) {
  const absl::Time deadline = FromGrpcDeadline(context.deadline()) - kAnswerMargin;
  while (true) {
    const absl::Time look = std::min(deadline, SteadyNow() + kLookInterval);
    absl::StatusOr<RendezvousStore::Entries> entries = store_->Wait(keys, look);
    if (!absl::IsDeadlineExceeded(entries.status()) || look == deadline || context.IsCancelled()) {
      return entries;
    }
  }
}

grpc::Status RendezvousService::Wait(grpc::ServerContext* context, const v1::WaitRequest* request,
                                     v1::Entries* reply) {
  if (absl::Status run = CheckRun(request->run_id()); !run.ok()) return ToGrpc(run);
  return Answer(WaitForKeys(*context, KeysOf(request->keys())), reply);
}

}  // namespace gradwire
