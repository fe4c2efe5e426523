#include "coordinator/membership/replicas.h"

#include <algorithm>

namespace gradwire {
namespace {

using Digests = std::vector<TensorDigest>;

// They differ.
size_t FirstDifference(const Digests& a, const Digests& b) {
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at_a != a.end() ? at_a->tensor : at_b->tensor;
}

}  // namespace

std::optional<ReplicaDifference> CompareReplicas(const std::vector<Participant*>& workers) {
  const auto equal_to = [](const Participant* worker) {
    return [worker](const Participant* other) { return other->digests == worker->digests; };
  };
  const auto is_common = [&](const Participant* worker) {
    const auto equal = std::count_if(workers.begin(), workers.end(), equal_to(worker));
    return 2 * static_cast<size_t>(equal) > workers.size();
  };
  const auto common = std::find_if(workers.begin(), workers.end(), is_common);
  const Participant* const expected = common != workers.end() ? *common : workers.front();
  ReplicaDifference difference;
  std::vector<Incarnation> others;
  for (const Participant* worker : workers) {
    if (worker->digests == expected->digests) continue;
    if (others.empty()) difference.tensor = FirstDifference(expected->digests, worker->digests);
    others.push_back(worker->incarnation);
  }
  if (others.empty()) return std::nullopt;
  if (common != workers.end()) difference.minority = others;
  return difference;
}

}  // namespace gradwire
