#ifndef GRADWIRE_COMMON_RPC_GRPC_SERVER_H_
#define GRADWIRE_COMMON_RPC_GRPC_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

struct GrpcServer {
  std::unique_ptr<grpc::Server> server;
  std::string address;  // "host:port" as asked for, with the port that was bound

  // Ends it, if it was started: calls under way have half a second to end by themselves.
  void Shutdown() const;
};

// Serves `services`, health and reflection on `listen` ("host:port"; port 0
// picks a free one), without TLS, with the limits of ConfigureServer. The
// services must outlive the server.
//   InvalidArgument     `listen` is not of that form
//   FailedPrecondition  it cannot be bound; says why
absl::StatusOr<GrpcServer> StartGrpcServer(absl::string_view listen,
                                           const std::vector<grpc::Service*>& services);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_GRPC_SERVER_H_
