#ifndef GRADWIRE_COMMON_RPC_KEEP_GRPC_H_
#define GRADWIRE_COMMON_RPC_KEEP_GRPC_H_

namespace gradwire {

// Starts gRPC with our settings, which it reads but once, and keeps it until the process ends. To
// be called before anything of gRPC's is made; further calls do nothing.
void KeepGrpc();

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_RPC_KEEP_GRPC_H_
