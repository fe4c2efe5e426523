#include "common/compress/low_rank/low_rank_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace gradwire {
namespace {

constexpr uint64_t kLeastSaving = 2;

}  // namespace

LowRankLayout::LowRankLayout(const std::vector<std::vector<int64_t>>& shapes, uint64_t rank) {
  for (const std::vector<int64_t>& shape : shapes) {
    const auto elements = static_cast<uint64_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
    const uint64_t rows = shape.empty() ? 1 : static_cast<uint64_t>(shape[0]);
    const uint64_t columns = rows == 0 ? 0 : elements / rows;
    const uint64_t of_matrix = std::min({rows, columns, rank});
    if ((rows + columns) * of_matrix * kLeastSaving < elements) {
      matrices.push_back({rows, columns, of_matrix, size, residual_size, left_size, right_size});
      residual_size += elements;
      left_size += rows * of_matrix;
      right_size += columns * of_matrix;
    } else {
      plain.push_back({size, elements, left_size});
      left_size += elements;
    }
    size += elements;
  }
}

LowRankPlan::LowRankPlan(const std::vector<std::vector<std::vector<int64_t>>>& shapes,
                         std::vector<BucketSpec> others, uint64_t rank) {
  for (const auto& of_bucket : shapes) {
    const LowRankLayout& bucket = buckets_.emplace_back(of_bucket, rank);
    places_.emplace_back(static_cast<int>(specs_.size()));
    Add(bucket.left_size);
    if (bucket.right_size > 0) Add(bucket.right_size);
    gradient_bytes_ += bucket.size * sizeof(float);
    residual_bytes_ += bucket.residual_size * sizeof(float);
  }
  for (BucketSpec& spec : others) {
    places_.emplace_back(static_cast<int>(specs_.size()));
    specs_.push_back(std::move(spec));
  }
}

void LowRankPlan::Add(uint64_t elements) {
  specs_.push_back({elements * sizeof(float), v1::DTYPE_FLOAT32});
  factor_bytes_ += elements * sizeof(float);
}

}  // namespace gradwire
