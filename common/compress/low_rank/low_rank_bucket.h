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

// Fills a vector in place of number `index`, which depends on those before it; another one in each
// `attempt`, which are counted from 0.
using DrawVector = std::function<void(size_t index, int attempt, absl::Span<float> vector)>;

// Makes `vectors`, of `length` elements one behind the other, all of them finite, orthogonal to
// each other and of length 1: modified Gram-Schmidt, each vector twice (Giraud and Langou 2002).
// One that depends on those before it, or is zero, is drawn; with a null `draw`, or if some
// attempts change nothing, it becomes zero. The bits are the same on every processor.
void Orthonormalize(absl::Span<float> vectors, uint64_t length, const DrawVector& draw);

// One bucket of a worker's ranks by PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019, algorithms
// 1 and 2), without the exchanges. Of each matrix, with Q the same on all ranks and orthonormal:
//
//   Project      M_r ← e_r + G_r     P_r = M_r Q       ─► mean P of all ranks
//   ProjectBack  P ← orthonormal P   Q_r = M_rᵀ P      ─► mean Q
//                e_r ← M_r − P Q_rᵀ
//   Reconstruct  mean gradient = P Qᵀ
//   Renew        Q ← orthonormal Q, for the next step (warm start)
//
// in this order in each step. The residual e_r is what rank r's own factors leave out, so the mean
// of all residuals is what the mean gradient leaves out. Other tensors travel beside P as they are.
//
// A vector of Q that is zero or depends on others is drawn anew: a function of bucket, matrix, step
// and place, the same on all ranks, as the first Q are. A matrix in which some rank has NaN or
// infinity becomes NaN on all ranks, and begins anew: nothing of it is kept.
//
// P Qᵀ and orthonormal vectors have the same bits on every processor. Not thread-safe.
class LowRankBucket {
 public:
  // Of `ranks` ranks that this worker carries. `layout` outlives this object.
  LowRankBucket(const LowRankLayout* layout, Bucket number, size_t ranks);

  // `gradient` of carried rank number `rank`, of the whole bucket; left(rank) is there then.
  void Project(size_t rank, absl::Span<const float> gradient);
  // left_mean() holds the mean over all ranks; right(rank) is there then, of each rank.
  void ProjectBack();
  // right_mean() holds the mean; `mean` is of the whole bucket.
  void Reconstruct(absl::Span<float> mean);
  // Behind `step`, which is counted from 0.
  void Renew(Step step);

  absl::Span<const float> left(size_t rank) const { return left_[rank]; }
  absl::Span<const float> right(size_t rank) const { return right_[rank]; }
  // What its matrices leave out; from ProjectBack on.
  absl::Span<const float> residual(size_t rank) const { return residual_[rank]; }
  absl::Span<float> left_mean() { return absl::MakeSpan(left_mean_); }
  absl::Span<float> right_mean() { return absl::MakeSpan(right_mean_); }

  // All that later steps depend on, to be captured and restored behind Renew: Q, and each rank's
  // residual.
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
  std::vector<float> basis_;                  // Q that P_r are made with
  std::vector<std::vector<float>> residual_;  // e_r, by rank; M_r from Project to ProjectBack
  std::vector<std::vector<float>> left_;      // P_r and plain elements, by rank
  std::vector<std::vector<float>> right_;     // Q_r, by rank
  std::vector<float> left_mean_;              // mean P, then orthonormal
  std::vector<float> right_mean_;             // mean Q
};

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_COMPRESS_LOW_RANK_LOW_RANK_BUCKET_H_
