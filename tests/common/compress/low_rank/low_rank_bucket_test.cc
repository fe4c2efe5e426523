// PowerSGD of one bucket, with the exchanges made here.

#include "common/compress/low_rank/low_rank_bucket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/random_floats.h"

namespace gradwire::low_rank_bucket_test {
namespace {

using ::testing::Each;
using testing::RandomFloats;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Floats = std::vector<float>;

Floats MeanOf(const std::vector<Floats>& all) {
  Floats mean(all[0].size());
  for (const Floats& one : all) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<float>(all.size());
  }
  return mean;
}

// All ranks on one worker.
class Ranks {
 public:
  Ranks(const std::vector<std::vector<int64_t>>& shapes, uint64_t rank, size_t ranks)
      : layout(shapes, rank), bucket(&layout, Bucket(0), ranks), ranks_(ranks) {}

  Floats Step(uint64_t step, const std::vector<Floats>& gradients) {
    for (size_t i = 0; i < ranks_; ++i) bucket.Project(i, gradients[i]);
    Average([this](size_t rank) { return bucket.left(rank); }, bucket.left_mean());
    bucket.ProjectBack();
    Average([this](size_t rank) { return bucket.right(rank); }, bucket.right_mean());
    Floats mean(layout.size);
    bucket.Reconstruct(absl::MakeSpan(mean));
    bucket.Renew(gradwire::Step(step));
    return mean;
  }

  // Of all ranks, as long as the matrices.
  Floats MeanResidual() {
    std::vector<Floats> residuals;
    for (size_t i = 0; i < ranks_; ++i) {
      const absl::Span<float> residual = bucket.state()[1 + i];
      residuals.emplace_back(residual.begin(), residual.end());
    }
    return MeanOf(residuals);
  }

  const LowRankLayout layout;
  LowRankBucket bucket;

 private:
  template <typename Of>
  void Average(const Of& of, absl::Span<float> mean) {
    std::fill(mean.begin(), mean.end(), 0.0f);
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i] += of(rank)[i] / static_cast<float>(ranks_);
      }
    }
  }

  const size_t ranks_;
};

std::vector<Floats> GradientsOf(const Ranks& ranks, size_t count, unsigned seed) {
  std::vector<Floats> gradients;
  for (size_t i = 0; i < count; ++i) {
    gradients.push_back(RandomFloats(ranks.layout.size, 100 * seed + static_cast<unsigned>(i)));
  }
  return gradients;
}

// u vᵀ of a matrix.
Floats Product(const Floats& u, const Floats& v) {
  Floats matrix;
  for (const float a : u) {
    for (const float b : v) matrix.push_back(a * b);
  }
  return matrix;
}

void ExpectNear(const Floats& got, const Floats& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
}

TEST(LowRankBucket, ManySteps_MeansAndTheMeanResidualAreTheSumOfGradients) {
  constexpr size_t kRanks = 3;
  Ranks ranks({{20, 31}, {30, 17}}, 2, kRanks);
  ASSERT_EQ(ranks.layout.residual_size, ranks.layout.size);
  std::vector<double> given(ranks.layout.size), arrived(given.size());
  for (unsigned step = 0; step < 20; ++step) {
    const std::vector<Floats> gradients = GradientsOf(ranks, kRanks, step);
    const Floats mean = MeanOf(gradients), got = ranks.Step(step, gradients);
    for (size_t i = 0; i < mean.size(); ++i) {
      given[i] += mean[i];
      arrived[i] += got[i];
    }
  }
  const Floats left = ranks.MeanResidual();
  for (size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(arrived[i] + left[i], given[i], 1e-4) << i;
}

// A rank's own residual, which does not grow with what ranks differ in.
TEST(LowRankBucket, ManySteps_EachResidualStaysBounded) {
  Ranks ranks({{20, 31}}, 2, 2);
  double norm = 0;
  for (unsigned step = 0; step < 300; ++step) {
    ranks.Step(step, GradientsOf(ranks, 2, step));
  }
  const absl::Span<const float> residual = ranks.bucket.state()[1];
  for (const float value : residual) norm += static_cast<double>(value) * value;
  EXPECT_LT(std::sqrt(norm / 620), 6);  // of gradients of 1; what ranks differ in adds up to 12
}

TEST(LowRankBucket, OneStep_LeftIsOrthonormal) {
  Ranks ranks({{40, 50}}, 4, 2);
  ranks.Step(0, GradientsOf(ranks, 2, 1));
  const absl::Span<float> p = ranks.bucket.left_mean();
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (size_t i = 0; i < 40; ++i) sum += static_cast<double>(p[a * 40 + i]) * p[b * 40 + i];
      EXPECT_NEAR(sum, a == b ? 1 : 0, 1e-6);
    }
  }
}

// Sums of as many products as the rank.
TEST(LowRankBucket, MatrixOfThatRank_IsExact) {
  Ranks ranks({{40, 50}}, 2, 2);
  for (unsigned step = 0; step < 3; ++step) {
    const Floats a = Product(RandomFloats(40, step), RandomFloats(50, 10 + step));
    const Floats b = Product(RandomFloats(40, 20 + step), RandomFloats(50, 30 + step));
    ExpectNear(ranks.Step(step, {a, b}), MeanOf({a, b}), 1e-4);
  }
  EXPECT_THAT(ranks.MeanResidual(), Each(::testing::FloatNear(0, 1e-4)));
}

TEST(LowRankBucket, RankOfTheSmallerSide_IsExact) {
  // Thin ones; either way.
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{3, 200}, {200, 3}}) {
    LowRankLayout layout({shape}, 1);
    ASSERT_EQ(layout.matrices.size(), 1);
    layout.matrices[0].rank = 3;
    layout.left_size *= 3;
    layout.right_size *= 3;
    LowRankBucket bucket(&layout, Bucket(0), 1);
    const Floats gradient = RandomFloats(600, 5);
    bucket.Project(0, gradient);
    std::copy(bucket.left(0).begin(), bucket.left(0).end(), bucket.left_mean().begin());
    bucket.ProjectBack();
    std::copy(bucket.right(0).begin(), bucket.right(0).end(), bucket.right_mean().begin());
    Floats mean(600);
    bucket.Reconstruct(absl::MakeSpan(mean));
    ExpectNear(mean, gradient, 1e-5);
  }
}

TEST(LowRankBucket, PlainTensors_AreTheirMean) {
  Ranks ranks({{7}, {40, 50}, {}, {3, 4}}, 2, 2);
  const std::vector<Floats> gradients = GradientsOf(ranks, 2, 1);
  const Floats got = ranks.Step(0, gradients), mean = MeanOf(gradients);
  for (const size_t i : {0, 6, 2007, 2008, 2019}) EXPECT_FLOAT_EQ(got[i], mean[i]) << i;
}

TEST(LowRankBucket, EmptyBucketAndOneElement_AreFine) {
  Ranks empty({}, 2, 1);
  EXPECT_TRUE(empty.Step(0, {Floats()}).empty());
  Ranks one({{1}}, 2, 1);
  EXPECT_EQ(one.Step(0, {{-0.3f}}), Floats{-0.3f});
}

// What has no direction yet is drawn until there is one.
TEST(LowRankBucket, ZerosAtFirst_LaterGradientsArrive) {
  Ranks ranks({{40, 50}}, 1, 1);
  EXPECT_THAT(ranks.Step(0, {Floats(2000)}), Each(0.0f));
  const Floats gradient = Product(RandomFloats(40, 1), RandomFloats(50, 2));
  ExpectNear(ranks.Step(1, {gradient}), gradient, 1e-5);
}

TEST(LowRankBucket, TinyGradients_DoNotVanish) {
  Ranks ranks({{40, 50}}, 1, 1);
  Floats gradient = Product(RandomFloats(40, 1), RandomFloats(50, 2));
  for (float& value : gradient) value *= 1e-30f;
  for (unsigned step = 0; step < 3; ++step) {
    ExpectNear(ranks.Step(step, {gradient}), gradient, 1e-34);
  }
}

TEST(LowRankBucket, NanOrInfinity_MatrixIsNanAndNothingIsKept) {
  for (const float bad : {kInf, -kInf, kNan}) {
    Ranks ranks({{40, 50}, {31, 32}, {5}}, 2, 2);
    std::vector<Floats> gradients = GradientsOf(ranks, 2, 1);
    gradients[1][777] = bad;
    const Floats got = ranks.Step(0, gradients);
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[777]) && std::isnan(got[1999]));
    EXPECT_TRUE(std::isfinite(got[2000])) << "another matrix";
    for (const absl::Span<float> state : ranks.bucket.state()) {
      for (const float value : state) ASSERT_TRUE(std::isfinite(value));
    }
    EXPECT_TRUE(std::isfinite(ranks.Step(1, GradientsOf(ranks, 2, 2))[777]));
  }
}

TEST(LowRankBucket, PlainNan_ArrivesAsOneAlone) {
  Ranks ranks({{40, 50}, {5}}, 2, 1);
  Floats gradient = RandomFloats(2005, 1);
  gradient[2002] = kNan;
  const Floats got = ranks.Step(0, {gradient});
  EXPECT_TRUE(std::isnan(got[2002]));
  EXPECT_EQ(std::count_if(got.begin(), got.end(), [](float v) { return std::isnan(v); }), 1);
}

TEST(LowRankBucket, State_CapturedAndRestored_NextStepIsTheSame) {
  Ranks one({{40, 50}, {7}}, 2, 2), other({{40, 50}, {7}}, 2, 2);
  one.Step(0, GradientsOf(one, 2, 1));
  for (size_t i = 0; i < one.bucket.state().size(); ++i) {
    std::copy(one.bucket.state()[i].begin(), one.bucket.state()[i].end(),
              other.bucket.state()[i].begin());
  }
  EXPECT_EQ(other.Step(1, GradientsOf(one, 2, 2)), one.Step(1, GradientsOf(one, 2, 2)));
}

// Also where a worker carries other ranks than another does.
TEST(LowRankBucket, RanksApart_SameBits) {
  Ranks both({{40, 50}}, 2, 2);
  const LowRankLayout layout({{40, 50}}, 2);
  LowRankBucket first(&layout, Bucket(0), 1), second(&layout, Bucket(0), 1);
  const std::vector<Floats> gradients = GradientsOf(both, 2, 1);
  both.bucket.Project(0, gradients[0]);
  both.bucket.Project(1, gradients[1]);
  first.Project(0, gradients[0]);
  second.Project(0, gradients[1]);
  EXPECT_EQ(both.bucket.left(0), first.left(0));
  EXPECT_EQ(both.bucket.left(1), second.left(0));
}

TEST(LowRankBucket, BucketsOfOneShape_BeginDifferently) {
  const LowRankLayout layout({{40, 50}, {40, 50}}, 1);
  LowRankBucket first(&layout, Bucket(0), 1), second(&layout, Bucket(1), 1);
  const absl::Span<float> basis = first.state()[0];
  EXPECT_NE(basis[0], basis[50]);
  EXPECT_NE(basis[0], second.state()[0][0]);
}

}  // namespace
}  // namespace gradwire::low_rank_bucket_test
