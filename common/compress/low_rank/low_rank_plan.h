#ifndef GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_PLAN_H_
#define GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/layout.h"

namespace gradwire {

// A tensor of a bucket that travels as `rank` vectors P of `rows` elements and as many Q of
// `columns`. It is a matrix: what its first dimension counts are rows.
struct LowRankMatrix {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t rank = 0;
  uint64_t first = 0;     // element of the bucket where it begins
  uint64_t residual = 0;  // where it begins in what matrices leave out
  uint64_t left = 0;      // where its P begin in what is exchanged first, one after the other
  uint64_t right = 0;     // likewise its Q, of what is exchanged then
};

// Elements that travel as they are, in the first exchange.
struct PlainRange {
  uint64_t first = 0;  // of the bucket
  uint64_t size = 0;
  uint64_t left = 0;
};

// How one bucket of tensors travels. A matrix is one if that leaves less than half of it, as in
// PyTorch's PowerSGD hook: 2 · (rows + columns) · rank < rows · columns. Sizes are in elements.
struct LowRankLayout {
  // `shapes` of the tensors, in their order in the bucket; `rank` of every matrix at most.
  LowRankLayout(const std::vector<std::vector<int64_t>>& shapes, uint64_t rank);

  std::vector<LowRankMatrix> matrices;
  std::vector<PlainRange> plain;
  uint64_t size = 0;
  uint64_t residual_size = 0;
  uint64_t left_size = 0;
  uint64_t right_size = 0;  // 0: there is no second exchange
};

// How the gradient buckets of a model travel, as buckets of a layout of its own: of each the first
// exchange, and behind it the second, if it has one; then all others, as they are.
class LowRankPlan {
 public:
  // `shapes` by gradient bucket, `others` behind those.
  LowRankPlan(const std::vector<std::vector<std::vector<int64_t>>>& shapes,
              std::vector<BucketSpec> others, uint64_t rank);

  const std::vector<LowRankLayout>& buckets() const { return buckets_; }
  // The layout, in float32.
  const std::vector<BucketSpec>& specs() const { return specs_; }
  // Where a gradient bucket's first exchange is in it (its second is the next), or another bucket.
  Bucket place(size_t bucket) const { return places_[bucket]; }

  uint64_t gradient_bytes() const { return gradient_bytes_; }  // before
  uint64_t factor_bytes() const { return factor_bytes_; }      // what travels for them
  uint64_t residual_bytes() const { return residual_bytes_; }  // that each rank keeps

 private:
  void Add(uint64_t elements);

  std::vector<LowRankLayout> buckets_;
  std::vector<BucketSpec> specs_;
  std::vector<Bucket> places_;
  uint64_t gradient_bytes_ = 0;
  uint64_t factor_bytes_ = 0;
  uint64_t residual_bytes_ = 0;
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_PLAN_H_
