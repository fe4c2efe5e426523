#ifndef GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_RENDEZVOUS_H_
#define GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_RENDEZVOUS_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "common/base/mutex.h"
#include "common/rpc/security.h"
#include "common/wire/view.h"
#include "gradwire/v1/rendezvous.grpc.pb.h"
#include "worker/backends/engines/engine.h"

namespace gradwire {

// Client of v1.Rendezvous at the coordinator. Errors are those of rendezvous.proto, prefixed with
// "rendezvous at coordinator HOST:PORT"; Unavailable if it does not answer; after Cancel, its
// reason. Thread-safe.
class EngineRendezvous : public KeyValueStore {
 public:
  // `coordinator` is "host:port".
  explicit EngineRendezvous(const std::string& coordinator, const Security& security = {});

  // Waits until the coordinator answers; then keys belong to the view's run and generation. Call it
  // once, before all other methods except Cancel.
  absl::Status Connect(const View& view);

  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::vector<std::string>> Wait(const std::vector<std::string>& keys,
                                                absl::Time deadline) override;

  // Returns the value of each key, if it exists.
  absl::StatusOr<std::vector<absl::optional<std::string>>> Get(const std::vector<std::string>& keys,
                                                               absl::Time deadline);

  // Ends all calls, now and later.
  void Cancel(const absl::Status& reason);

 private:
  using Stub = v1::Rendezvous::Stub;

  std::string FullKey(const std::string& key) const;
  // Makes one call of `method`, which Cancel can end. Fills in the run.
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Reply*),
                             Request request, absl::Time deadline);
  absl::Status Begin(grpc::ClientContext* context);
  absl::Status End(grpc::ClientContext* context, const grpc::Status& status);

  const std::string name_;  // for messages
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stub> stub_;
  std::string run_id_;  // constant after Connect
  std::string prefix_;  // constant after Connect

  Mutex mutex_;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_ENGINES_ENGINE_RENDEZVOUS_H_
