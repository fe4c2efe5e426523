#ifndef GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_SERVICE_H_
#define GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_SERVICE_H_

#include <string>

#include "common/base/ids.h"
#include "coordinator/rendezvous/rendezvous_store.h"
#include "gradwire/v1/rendezvous.grpc.pb.h"

namespace gradwire {

// Serves v1.Rendezvous (see rendezvous.proto) of one run from a RendezvousStore. A Wait holds one
// of gRPC's threads until it ends, its deadline passes or its caller is gone.
class RendezvousService final : public v1::Rendezvous::Service {
 public:
  // `store` must outlive the service.
  RendezvousService(const RunId& run_id, RendezvousStore* store);

  grpc::Status Set(grpc::ServerContext* context, const v1::SetRequest* request,
                   v1::SetReply* reply) override;
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest* request,
                   v1::Entries* reply) override;
  grpc::Status Wait(grpc::ServerContext* context, const v1::WaitRequest* request,
                    v1::Entries* reply) override;

 private:
  absl::Status CheckRun(const std::string& run_id) const;
  absl::StatusOr<RendezvousStore::Entries> WaitForKeys(const grpc::ServerContext& context,
                                                       const RendezvousStore::Keys& keys);

  const RunId run_id_;
  RendezvousStore* const store_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RENDEZVOUS_RENDEZVOUS_SERVICE_H_
