#include "bench/operations.h"

#include <algorithm>

#include "worker/options/traits.h"

namespace gradwire {

BucketSpec Operation::BucketOf(uint64_t bytes) const {
  return {bytes, sums ? v1::DTYPE_FLOAT32 : v1::DTYPE_BYTES, Rank(0), collective};
}

const std::vector<Operation>& Operations() {
  static const auto* const operations =
      new std::vector<Operation>{{"send-recv", v1::COLLECTIVE_SEND_RECV, false, false},
                                 {"broadcast", v1::COLLECTIVE_BROADCAST, false, false},
                                 {"scatter", v1::COLLECTIVE_SCATTER, false, true},
                                 {"gather", v1::COLLECTIVE_GATHER, false, true},
                                 {"reduce", v1::COLLECTIVE_REDUCE, true, false},
                                 {"all-gather", v1::COLLECTIVE_ALL_GATHER, false, true},
                                 {"reduce-scatter", v1::COLLECTIVE_REDUCE_SCATTER, true, true},
                                 {"all-reduce", v1::COLLECTIVE_ALL_REDUCE, true, false}};
  return *operations;
}

std::vector<std::string> OperationNames() {
  std::vector<std::string> names;
  for (const Operation& operation : Operations()) names.push_back(operation.name);
  return names;
}

const Operation& OperationCalled(absl::string_view name) {
  return *std::find_if(Operations().begin(), Operations().end(),
                       [name](const Operation& operation) { return operation.name == name; });
}

bool Has(absl::string_view backend, const Operation& operation) {
  return TraitsOfBackend(backend).collectives == Collectives::kAll ||
         operation.collective == v1::COLLECTIVE_ALL_REDUCE ||
         operation.collective == v1::COLLECTIVE_BROADCAST;
}

bool PeerHas(const Operation& operation) {
  return operation.collective != v1::COLLECTIVE_REDUCE_SCATTER;
}

double BusFactor(const Operation& operation, int world_size) {
  if (world_size == 1) return 0;
  const double others = static_cast<double>(world_size - 1) / world_size;
  if (operation.collective == v1::COLLECTIVE_ALL_REDUCE) return 2 * others;
  return operation.in_parts ? others : 1;
}

uint64_t SizeFor(const Operation& operation, uint64_t bytes, int world_size) {
  if (!operation.in_parts) return bytes;
  const uint64_t unit = sizeof(float) * world_size;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace gradwire
