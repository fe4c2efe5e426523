#ifndef GRADWIRE_COMMON_RPC_CONNECTION_LISTENER_H_
#define GRADWIRE_COMMON_RPC_CONNECTION_LISTENER_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/address.h"
#include "common/base/logging.h"

namespace gradwire {

// Accepts connections for a gRPC server, on a thread of its own. gRPC's listener (1.51) gives up
// for good, and says nothing, when it lacks a descriptor once. This one tries again, takes no
// more connections than leave descriptors for the rest of the process, and logs both.
class ConnectionListener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // gRPC's server of `acceptor` runs, and outlives this object.
  ConnectionListener(Listening listening, std::unique_ptr<Acceptor> acceptor);
  // Closes the port; connections stay.
  ~ConnectionListener();

 private:
  // A connection that gRPC has closed may have left its descriptor to another one: the cookie,
  // which the kernel never gives twice, tells.
  struct Connection {
    int fd;
    uint64_t cookie;
  };

  void Run();
  // Waits for somebody, or for the end; false: the end.
  bool Wait(bool listens);
  bool TakeAll(const UniqueFd& listening);
  void Take(const UniqueFd& listening, UniqueFd connection);
  bool HasRoom();

  const Listening listening_;
  const std::unique_ptr<Acceptor> acceptor_;
  const size_t limit_;    // connections at a time
  const UniqueFd ended_;  // an eventfd
  std::vector<Connection> connections_;
  LogThrottle refusals_;
  LogThrottle failures_;
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CONNECTION_LISTENER_H_
