#include "common/rpc/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/rpc/channel.h"

namespace gradwire {
namespace {

// gRPC does not say why it could not bind, so ask the system. Empty if it can be bound.
std::string WhyNotBound(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failure =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failure != 0) return absl::AsciiStrToLower(gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::AsciiStrToLower(std::strerror(errno));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const std::string why = bound ? "" : absl::AsciiStrToLower(std::strerror(errno));
  close(fd);
  return why;
}

}  // namespace

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
    const std::string why = WhyNotBound(*address);
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", ToString(*address), ": ",
                                                      why.empty() ? "gRPC refused it" : why));
  }
  address->port = static_cast<uint16_t>(port);
  return GrpcServer{std::move(server), ToString(*address)};
}

}  // namespace gradwire
