#ifndef GRADWIRE_COMMON_STATE_TRANSFER_STATE_SERVICE_H_
#define GRADWIRE_COMMON_STATE_TRANSFER_STATE_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "gradwire/v1/state.grpc.pb.h"

namespace gradwire {

// The longest piece of State.Fetch.
inline constexpr uint64_t kStatePieceBytes = 1 << 20;

// A state that does not change as long as a process holds it. Thread-safe.
class SharedState {
 public:
  virtual ~SharedState() = default;

  // Returns the tensors.
  virtual const v1::StateCatalog& catalog() const = 0;
  // Copies `out.size()` bytes of a tensor's values, from `begin` on.
  //   InvalidArgument  there is no such tensor, or it has fewer bytes
  //   DataLoss         the stored bytes are damaged
  virtual absl::Status Read(const std::string& section, const std::string& key, uint64_t begin,
                            absl::Span<uint8_t> out) = 0;
};

// Serves the states of one process (see state.proto).
class StateService final : public v1::State::Service {
 public:
  // Returns the state of a run before `step`, copied in the view of `generation` (0: of a
  // checkpoint). PermissionDenied if it is another run; FailedPrecondition, with what is held, if
  // this process has no such state. Called on threads of gRPC.
  using Find = std::function<absl::StatusOr<std::shared_ptr<SharedState>>(
      const RunId& run_id, Step step, Generation generation)>;

  explicit StateService(Find find) : find_(std::move(find)) {}

  grpc::Status Describe(grpc::ServerContext* context, const v1::StateId* id,
                        v1::StateCatalog* catalog) override;
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::StatePiece>* writer) override;

 private:
  absl::StatusOr<std::shared_ptr<SharedState>> FindState(const v1::StateId& id) const;

  const Find find_;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_STATE_TRANSFER_STATE_SERVICE_H_
