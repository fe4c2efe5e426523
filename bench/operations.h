#ifndef GRADWIRE_BENCH_OPERATIONS_H_
#define GRADWIRE_BENCH_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/wire/layout.h"

namespace gradwire {

// A collective as `gradwire bench collectives --ops` names it; rank 0 is the root.
struct Operation {
  std::string name;  // "all-gather"
  v1::Collective collective = v1::COLLECTIVE_UNSPECIFIED;
  bool sums = false;      // what comes out are means; else what one rank put in
  bool in_parts = false;  // part r of W comes from, or gets to, rank r alone

  // Of float32 elements; those of operations in parts are a multiple of W.
  BucketSpec BucketOf(uint64_t bytes) const;
};

// All, in the order in which they are explained.
const std::vector<Operation>& Operations();
std::vector<std::string> OperationNames();
// The one called `name`, which exists.
const Operation& OperationCalled(absl::string_view name);

// Whether a back end has the operation.
bool Has(absl::string_view backend, const Operation& operation);
// Whether PyTorch's Gloo has it.
bool PeerHas(const Operation& operation);

// The part of the bytes that the busiest link carries in one direction at the least, between the
// ranks themselves; nccl-tests' factor from algbw to busbw.
double BusFactor(const Operation& operation, int world_size);

// `bytes`, or the next number that an operation in parts can cut for `world_size` ranks.
uint64_t SizeFor(const Operation& operation, uint64_t bytes, int world_size);

}  // namespace gradwire

#endif  // GRADWIRE_BENCH_OPERATIONS_H_
