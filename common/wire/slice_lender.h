#ifndef GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_
#define GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_

#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"

namespace gradwire {

// Lends memory to gRPC without a copy and knows when all of it came back.
// gRPC may hold a slice for longer than the Write that sent it: memory may be
// reused or freed only after Reclaim. The lender itself may be destroyed
// while slices are out. Thread-safe.
class SliceLender {
 public:
  SliceLender();
  ~SliceLender();

  // A slice over `bytes` bytes at `data`, which the caller keeps alive and
  // unchanged until it is back.
  grpc::Slice Lend(const void* data, size_t bytes);

  // The same for a user of memory other than gRPC: it is back when the last copy
  // of the token is gone.
  std::shared_ptr<const void> LendToken();

  // Waits until every lent slice was destroyed, which takes gRPC an instant once
  // the data is written or the call is dead. Returns `status`, or Internal if
  // memory is still out after 5 s.
  absl::Status Reclaim(absl::Status status);

 private:
  struct Ledger;
  std::shared_ptr<Ledger> ledger_;
};

// A slice over memory that `owner` keeps alive; released with the slice.
grpc::Slice SliceOwnedBy(std::shared_ptr<const void> owner, const void* data, size_t bytes);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_WIRE_SLICE_LENDER_H_
