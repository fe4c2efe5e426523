#ifndef GRADWIRE_COMMON_RPC_STATUS_SERVICE_H_
#define GRADWIRE_COMMON_RPC_STATUS_SERVICE_H_

#include <functional>

#include "gradwire/v1/status.grpc.pb.h"

namespace gradwire {

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

#endif  // GRADWIRE_COMMON_RPC_STATUS_SERVICE_H_
