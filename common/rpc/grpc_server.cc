#include "common/rpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"

namespace gradwire {
namespace {

constexpr absl::Duration kCallGrace = absl::Milliseconds(500);

}  // namespace

void GrpcServer::Shutdown() const {
  if (server != nullptr) server->Shutdown(ToGrpcDeadline(SteadyNow() + kCallGrace));
}

absl::StatusOr<GrpcServer> StartGrpcServer(absl::string_view listen,
                                           const std::vector<grpc::Service*>& services) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort(ToString(*address), grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", ToString(*address), ": ", WhyNotBound(*address)));
  }
  address->port = static_cast<uint16_t>(port);
  return GrpcServer{std::move(server), ToString(*address)};
}

}  // namespace gradwire
