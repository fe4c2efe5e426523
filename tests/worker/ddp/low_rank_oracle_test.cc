// PowerSGD beside PyTorch's own hook.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/compress/low_rank/low_rank_bucket.h"
#include "tests/support/oracle.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing::low_rank_oracle_test {
namespace {

using Floats = std::vector<float>;

constexpr size_t kRanks = 2;

void Average(const LowRankBucket& bucket,
             absl::Span<const float> (LowRankBucket::*of)(size_t) const, absl::Span<float> mean) {
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = ((bucket.*of)(0)[i] + (bucket.*of)(1)[i]) / kRanks;
  }
}

Floats RunStep(uint64_t step, const std::vector<Floats>& gradients, LowRankBucket* bucket) {
  for (size_t rank = 0; rank < kRanks; ++rank) bucket->Project(rank, gradients[rank]);
  Average(*bucket, &LowRankBucket::left, bucket->left_mean());
  bucket->ProjectBack();
  Average(*bucket, &LowRankBucket::right, bucket->right_mean());
  Floats mean(gradients[0].size());
  bucket->Reconstruct(absl::MakeSpan(mean));
  bucket->Renew(Step(step));
  return mean;
}

class PowerSgdOracle : public ::testing::TestWithParam<uint64_t> {};

// Signs of P and Q may differ, and residuals by what adds up to zero; means do not.
TEST_P(PowerSgdOracle, SameBasis_MeansOfPyTorchsHook) {
  const TempDir folder;
  const auto answer = AskOracle(
      "powersgd.py", {"1", std::to_string(kRanks), "4", std::to_string(GetParam()), folder.path()});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const LowRankLayout layout((*answer)["shapes"].get<std::vector<std::vector<int64_t>>>(),
                             GetParam());
  LowRankBucket bucket(&layout, Bucket(0), kRanks);
  Floats basis;
  for (const auto& of_matrix : (*answer)["basis"]) {
    for (const float value : of_matrix.get<Floats>()) basis.push_back(value);
  }
  ASSERT_EQ(basis.size(), layout.right_size);
  std::copy(basis.begin(), basis.end(), bucket.right_mean().begin());
  bucket.Renew(Step(0));
  for (size_t step = 0; step < 4; ++step) {
    const Floats got =
        RunStep(step, (*answer)["gradients"][step].get<std::vector<Floats>>(), &bucket);
    const Floats expected = (*answer)["means"][step].get<Floats>();
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-4) << "step " << step << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rank, PowerSgdOracle, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace gradwire::testing::low_rank_oracle_test
