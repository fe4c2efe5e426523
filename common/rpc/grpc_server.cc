#include "common/rpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/rpc/reach.h"

namespace gradwire {

namespace {

constexpr absl::Duration kCallGrace = absl::Milliseconds(500);
constexpr int kUsualWorkers = 8;  // until their number is known

}  // namespace

void GrpcServer::AllowCalls(int calls) const { quota->SetMaxThreads(calls); }

void GrpcServer::Shutdown() {
  listener.reset();
  if (server != nullptr) server->Shutdown(ToGrpcDeadline(SteadyNow() + kCallGrace));
}

absl::StatusOr<GrpcServer> StartGrpcServer(absl::string_view listen,
                                           const std::vector<grpc::Service*>& services,
                                           const Security& security) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  if (!security.may_be_public()) {
    if (absl::Status reach = CheckReach("--listen", listen); !reach.ok()) return reach;
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  absl::StatusOr<Listening> listening = ListenAt(*address);
  if (!listening.ok()) {
    return Annotate(listening.status(), absl::StrCat("cannot listen on ", ToString(*address)));
  }
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  auto quota = std::make_shared<grpc::ResourceQuota>();
  quota->SetMaxThreads(CallsOf(kUsualWorkers));
  builder.SetResourceQuota(*quota);
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      security.ForServer());
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", ToString(*address), ": gRPC could not start"));
  }
  const std::string bound = ToString(listening->address);
  auto listener = std::make_unique<ConnectionListener>(*std::move(listening), std::move(acceptor));
  return GrpcServer{std::move(server), bound, std::move(quota), std::move(listener)};
}

StatusService::StatusService(std::function<v1::StatusReply()> get) : get_(std::move(get)) {}

grpc::Status StatusService::Get(grpc::ServerContext*, const v1::StatusRequest*,
                                v1::StatusReply* reply) {
  *reply = get_();
  return grpc::Status::OK;
}

}  // namespace gradwire
