#ifndef GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_PLAN_H_
#define GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/layout.h"

namespace gradwire {

// A tensor of a bucket that travels as `rank` vectors P of `rows` elements and as many Q of
// `columns`. It is a matrix whose rows are indexed by its first dimension.
struct LowRankMatrix {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t rank = 0;
  uint64_t first = 0;     // its first element in the bucket
  uint64_t residual = 0;  // its first element in the residual
  uint64_t left = 0;      // its first element of P in the first exchange
  uint64_t right = 0;     // its first element of Q in the second exchange
};

// Elements that travel unchanged, in the first exchange.
struct PlainRange {
  uint64_t first = 0;  // in the bucket
  uint64_t size = 0;
  uint64_t left = 0;
};

// How one bucket of tensors travels. A matrix is factored if that more than halves its size, as in
// PyTorch's PowerSGD hook: 2 · (rows + columns) · rank < rows · columns. Sizes are in elements.
struct LowRankLayout {
  // `shapes` of the tensors, in their order in the bucket; `rank`: upper limit for every matrix.
  LowRankLayout(const std::vector<std::vector<int64_t>>& shapes, uint64_t rank);

  std::vector<LowRankMatrix> matrices;
  std::vector<PlainRange> plain;
  uint64_t size = 0;
  uint64_t residual_size = 0;
  uint64_t left_size = 0;
  uint64_t right_size = 0;  // 0: no second exchange
};

// How the gradient buckets of a model travel, as buckets of a layout of its own: for each bucket
// the first exchange, then the second, if it has one; then all other buckets, unchanged.
class LowRankPlan {
 public:
  // `shapes` by gradient bucket; `others` follow them.
  LowRankPlan(const std::vector<std::vector<std::vector<int64_t>>>& shapes,
              std::vector<BucketSpec> others, uint64_t rank);

  const std::vector<LowRankLayout>& buckets() const { return buckets_; }
  // The layout, in float32.
  const std::vector<BucketSpec>& specs() const { return specs_; }
  // Returns the bucket of a gradient bucket's first exchange (the second is next), or of another
  // bucket.
  Bucket place(size_t bucket) const { return places_[bucket]; }

  uint64_t gradient_bytes() const { return gradient_bytes_; }  // uncompressed
  uint64_t factor_bytes() const { return factor_bytes_; }      // exchanged instead
  uint64_t residual_bytes() const { return residual_bytes_; }  // kept by each rank

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
