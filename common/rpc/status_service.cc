#include "common/rpc/status_service.h"

#include <utility>

namespace gradwire {

StatusService::StatusService(std::function<v1::StatusReply()> get) : get_(std::move(get)) {}

grpc::Status StatusService::Get(grpc::ServerContext*, const v1::StatusRequest*,
                                v1::StatusReply* reply) {
  *reply = get_();
  return grpc::Status::OK;
}

}  // namespace gradwire
