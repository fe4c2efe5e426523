#ifndef GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_
#define GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"

namespace gradwire {

// Lends memory to gRPC without a copy, and knows when all of it was returned. gRPC may hold a slice
// after the Write that sent it: memory may be reused or freed only after Reclaim. The lender itself
// may be destroyed while slices exist. Thread-safe.
class SliceLender {
 public:
  SliceLender();
  ~SliceLender();

  // Returns a slice over `bytes` bytes at `data`. The caller keeps them alive and unchanged until
  // the slice is destroyed.
  grpc::Slice Lend(const void* data, size_t bytes);

  // The same for a user other than gRPC: the memory is returned when the last copy of the token is
  // destroyed.
  std::shared_ptr<const void> LendToken();

  // Waits until every slice is destroyed, usually at once after the data is written or the call is
  // over. Returns `status`, or Internal if memory is still lent after 5 s.
  absl::Status Reclaim(absl::Status status);

 private:
  struct Ledger;
  std::shared_ptr<Ledger> ledger_;
};

// Returns a slice over memory that `owner` keeps alive; the slice holds `owner`.
grpc::Slice SliceOwnedBy(std::shared_ptr<const void> owner, const void* data, size_t bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_
