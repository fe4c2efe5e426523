#include "worker/ddp/low_rank_plan_of.h"

#include <utility>
#include <vector>

namespace gradwire {

LowRankPlan LowRankPlanOf(const Reducer& reducer, uint64_t rank) {
  std::vector<std::vector<std::vector<int64_t>>> shapes(reducer.gradient_buckets());
  for (size_t bucket = 0; bucket < shapes.size(); ++bucket) {
    for (const torch::Tensor& tensor : reducer.ParametersOf(bucket)) {
      shapes[bucket].push_back(tensor.sizes().vec());
    }
  }
  std::vector<BucketSpec> others = reducer.BucketSpecs();
  others.erase(others.begin(), others.begin() + static_cast<ptrdiff_t>(shapes.size()));
  return LowRankPlan(shapes, std::move(others), rank);
}

}  // namespace gradwire
