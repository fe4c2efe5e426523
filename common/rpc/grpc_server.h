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

// Returns the limit of open calls at a server for a run with this many workers; each call holds a
// thread. At most 64 connections of each worker, with two calls each, and some for people and
// monitoring programs.
constexpr int CallsOf(int workers) { return 64 + 132 * workers; }

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // "host:port" as requested, with the bound port
  std::shared_ptr<grpc::ResourceQuota> quota;
  std::unique_ptr<ConnectionListener> listener;  // must end before the server

  // Sets the limit of open calls; further calls end with ResourceExhausted.
  void AllowCalls(int calls) const;
  // Ends the server, if it was started: open calls have half a second to finish.
  void Shutdown();
};

// Serves `services`, health and reflection on `listen` ("host:port"; port 0 selects a free one), to
// calls that `security` accepts, with the limits of ConfigureServer and ConnectionListener, and
// CallsOf(8) calls. The services must outlive the server.
//   InvalidArgument     `listen` is malformed
//   FailedPrecondition  it cannot be bound; with the reason
absl::StatusOr<GrpcServer> StartGrpcServer(absl::string_view listen,
                                           const std::vector<grpc::Service*>& services,
                                           const Security& security = {});

// Serves Status.Get from a function.
class StatusService final : public v1::Status::Service {
 public:
  // `get` is called from many threads at once, and must stay valid while the server runs.
  explicit StatusService(std::function<v1::StatusReply()> get);

  grpc::Status Get(grpc::ServerContext* context, const v1::StatusRequest* request,
                   v1::StatusReply* reply) override;

 private:
  const std::function<v1::StatusReply()> get_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_GRPC_SERVER_H_
