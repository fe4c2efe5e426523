#ifndef GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_BUCKET_H_
#define GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/compress/low_rank/low_rank_plan.h"

namespace gradwire {

// Draws a replacement for vector number `index`, which depends on earlier ones. Each `attempt`,
// counted from 0, draws another one.
using DrawVector = std::function<void(size_t index, int attempt, absl::Span<float> vector)>;

// Makes `vectors`, contiguous, finite and of `length` elements each, orthonormal: modified
// Gram-Schmidt, each vector twice (Giraud and Langou 2002). A vector that is zero or depends on
// earlier ones is replaced by `draw`. With a null `draw`, or after some failed attempts, it becomes
// zero. The bits are the same on every processor.
void Orthonormalize(absl::Span<float> vectors, uint64_t length, const DrawVector& draw);

// One bucket of a worker's ranks in PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019, algorithms
// 1 and 2), without the exchanges. For each matrix, with Q orthonormal and equal on all ranks:
//
//   Project      M_r ← e_r + G_r     P_r = M_r Q       ─► mean P of all ranks
//   ProjectBack  P ← orthonormal P   Q_r = M_rᵀ P      ─► mean Q
//                e_r ← M_r − P Q_rᵀ
//   Reconstruct  mean gradient = P Qᵀ
//   Renew        Q ← orthonormal Q, for the next step (warm start)
//
// in this order in each step. The residual e_r is the error of rank r's own factors, so the mean of
// all residuals is the error of the mean gradient. Other tensors travel unchanged next to P.
//
// A vector of Q that is zero or depends on others is drawn again, and so are the first Q. The draw
// is a function of bucket, matrix, step and index, and so equal on all ranks. A matrix in which any
// rank has NaN or infinity becomes NaN on all ranks, and starts again without earlier state.
//
// P Qᵀ and orthonormal vectors have the same bits on every processor. Not thread-safe.
class LowRankBucket {
 public:
  // For `ranks` ranks that this worker carries. `layout` must outlive this object.
  LowRankBucket(const LowRankLayout* layout, Bucket number, size_t ranks);

  // `gradient` of carried rank number `rank`, of the whole bucket. Sets left(rank).
  void Project(size_t rank, absl::Span<const float> gradient);
  // left_mean() must hold the mean over all ranks. Sets right(rank) of each rank.
  void ProjectBack();
  // right_mean() must hold the mean; `mean` is the output for the whole bucket.
  void Reconstruct(absl::Span<float> mean);
  // After `step`, counted from 0.
  void Renew(Step step);

  absl::Span<const float> left(size_t rank) const { return left_[rank]; }
  absl::Span<const float> right(size_t rank) const { return right_[rank]; }
  // The error of its matrices; valid from ProjectBack on.
  absl::Span<const float> residual(size_t rank) const { return residual_[rank]; }
  absl::Span<float> left_mean() { return absl::MakeSpan(left_mean_); }
  absl::Span<float> right_mean() { return absl::MakeSpan(right_mean_); }

  // All state on which later steps depend, so that it can be captured and restored after Renew: Q,
  // and each rank's residual.
  std::vector<absl::Span<float>> state();

 private:
  void TakeOut(const LowRankMatrix& matrix, size_t rank, absl::Span<const float> p,
               absl::Span<float> q);
  void Multiply(const LowRankMatrix& matrix, absl::Span<float> out);
  void Forget(const LowRankMatrix& matrix);
  void Begin(size_t matrix, uint64_t draw);
  absl::Span<float> Residual(const LowRankMatrix& matrix, size_t rank, uint64_t row);

  const LowRankLayout& layout_;
  const uint64_t number_;
  std::vector<float> basis_;                  // the Q for P_r
  std::vector<std::vector<float>> residual_;  // e_r, by rank; M_r from Project to ProjectBack
  std::vector<std::vector<float>> left_;      // P_r and plain elements, by rank
  std::vector<std::vector<float>> right_;     // Q_r, by rank
  std::vector<float> left_mean_;              // mean P, then orthonormal
  std::vector<float> right_mean_;             // mean Q
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_BUCKET_H_
