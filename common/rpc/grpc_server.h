#ifndef GRADWIRE_COMMON_RPC_GRPC_SERVER_H_
#define GRADWIRE_COMMON_RPC_GRPC_SERVER_H_

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/connection_listener.h"
#include "common/rpc/security.h"
#include "gradwire/v1/status.grpc.pb.h"

namespace gradwire {

// Calls that a run of so many workers may have under way at a server, each of which holds a
// thread, with room for people and programs that look: at most 64 connections of each worker,
// with two calls each, and some.
constexpr int CallsOf(int workers) { return 64 + 132 * workers; }

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // "host:port" as asked for, with the port that was bound
  std::shared_ptr<grpc::ResourceQuota> quota;
  std::unique_ptr<ConnectionListener> listener;  // ends before the server

  // From now on so many calls at a time are taken; one more ends with ResourceExhausted.
  void AllowCalls(int calls) const;
  // Ends it, if it was started: calls under way have half a second to end by themselves.
  void Shutdown();
};

// Serves `services`, health and reflection on `listen` ("host:port"; port 0
// picks a free one), to calls that `security` lets in, with the limits of ConfigureServer and
// ConnectionListener, and CallsOf(8) calls. The services must outlive the server.
//   InvalidArgument     `listen` is not of that form
//   FailedPrecondition  it cannot be bound; says why
absl::StatusOr<GrpcServer> StartGrpcServer(absl::string_view listen,
                                           const std::vector<grpc::Service*>& services,
                                           const Security& security = {});

// Serves Status.Get from a function of its owner's.
class StatusService final : public v1::Status::Service {
 public:
  // `get` is called from many threads at once, and must stay valid as long as
  // the server runs.
  explicit StatusService(std::function<v1::StatusReply()> get);

  grpc::Status Get(grpc::ServerContext* context, const v1::StatusRequest* request,
                   v1::StatusReply* reply) override;

 private:
  const std::function<v1::StatusReply()> get_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_GRPC_SERVER_H_
