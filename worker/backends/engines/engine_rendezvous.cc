#include "worker/backends/engines/engine_rendezvous.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"

namespace gradwire {
namespace {

// For calls that do not wait for other ranks.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

}  // namespace

EngineRendezvous::EngineRendezvous(const std::string& coordinator, const Security& security)
    : name_(absl::StrCat("rendezvous at coordinator ", coordinator)),
      channel_(MakeChannel(coordinator, security, "", kCoordinatorSilence)),
      stub_(v1::Rendezvous::NewStub(channel_)) {}

absl::Status EngineRendezvous::Connect(const View& view) {
  run_id_ = ToBytes(view.run_id);
  prefix_ = absl::StrCat("engine/", view.generation.value(), "/");
  return WaitConnected(channel_.get(), name_, [this] {
    MutexLock lock(&mutex_);
    return cancelled_;
  });
}

std::string EngineRendezvous::FullKey(const std::string& key) const { return prefix_ + key; }

absl::Status EngineRendezvous::Begin(grpc::ClientContext* context) {
  MutexLock lock(&mutex_);
  if (cancelled_.ok()) calls_.insert(context);
  return cancelled_;
}

absl::Status EngineRendezvous::End(grpc::ClientContext* context, const grpc::Status& status) {
  MutexLock lock(&mutex_);
  calls_.erase(context);
  if (status.ok() || cancelled_.ok()) return Annotate(FromGrpc(status), name_);
  return cancelled_;
}

template <typename Request, typename Reply>
absl::StatusOr<Reply> EngineRendezvous::Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                                             Request request, absl::Time deadline) {
  request.set_run_id(run_id_);
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(deadline));
  if (absl::Status begun = Begin(&context); !begun.ok()) return begun;
  Reply reply;
  absl::Status ended = End(&context, ((*stub_).*method)(&context, request, &reply));
  if (!ended.ok()) return ended;
  return reply;
}

void EngineRendezvous::Cancel(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  if (cancelled_.ok()) cancelled_ = reason;
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

absl::Status EngineRendezvous::Set(const std::string& key, const std::string& value) {
  v1::SetRequest request;
  request.set_key(FullKey(key));
  request.set_value(value);
  return Call(&Stub::Set, std::move(request), SteadyNow() + kCallTimeout).status();
}

absl::StatusOr<std::vector<std::string>> EngineRendezvous::Wait(
    const std::vector<std::string>& keys, absl::Time deadline) {
  v1::WaitRequest request;
  for (const std::string& key : keys) request.add_keys(FullKey(key));
  const auto reply = Call(&Stub::Wait, std::move(request), deadline + kAnswerMargin);
  if (!reply.ok()) return reply.status();
  std::vector<std::string> values;
  for (const v1::Entry& entry : reply->entries()) values.push_back(entry.value());
  return values;
}

absl::StatusOr<std::vector<absl::optional<std::string>>> EngineRendezvous::Get(
    const std::vector<std::string>& keys, absl::Time deadline) {
  v1::GetRequest request;
  for (const std::string& key : keys) request.add_keys(FullKey(key));
  const auto reply = Call(&Stub::Get, std::move(request), deadline);
  if (!reply.ok()) return reply.status();
  std::map<std::string, std::string> found;
  for (const v1::Entry& entry : reply->entries()) found[entry.key()] = entry.value();
  std::vector<absl::optional<std::string>> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto entry = found.find(FullKey(keys[i]));
    if (entry != found.end()) values[i] = entry->second;
  }
  return values;
}

}  // namespace gradwire
