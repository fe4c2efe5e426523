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

// Accepts connections for a gRPC server, on a thread of its own. gRPC's listener (1.51) stops for
// good, without a message, after it once lacked a descriptor. This one tries again, limits the
// number of connections so that descriptors remain for the rest of the process, and logs both
// events.
class ConnectionListener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // gRPC's server of `acceptor` must run and outlive this object.
  ConnectionListener(Listening listening, std::unique_ptr<Acceptor> acceptor);
  // Closes the port; connections stay open.
  ~ConnectionListener();

 private:
  // The descriptor of a connection closed by gRPC may be reused. The kernel's cookie is unique and
  // shows that.
  struct Connection {
    int fd;
    uint64_t cookie;
  };

  void Run();
  // Waits for a connection or for the end; returns false at the end.
  bool Wait(bool listens);
  bool TakeAll(const UniqueFd& listening);
  void Take(const UniqueFd& listening, UniqueFd connection);
  bool HasRoom();

  const Listening listening_;
  const std::unique_ptr<Acceptor> acceptor_;
  const size_t limit_;    // number of open connections
  const UniqueFd ended_;  // an eventfd
  std::vector<Connection> connections_;
  LogThrottle refusals_;
  LogThrottle failures_;
  std::thread thread_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_CONNECTION_LISTENER_H_
