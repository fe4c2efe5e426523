// Buckets that take turns on several groups: the same bits as on one.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cluster/backend_cluster.h"
#include "worker/options/traits.h"

namespace gradwire::groups_test {
namespace {

constexpr int kRanks = 3;

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

const std::vector<BucketSpec>& Buckets() {
  static const auto* const buckets = new std::vector<BucketSpec>{{4 * 50001, v1::DTYPE_FLOAT32},
                                                                 {4 * 7, v1::DTYPE_FLOAT32},
                                                                 {4 * 90000, v1::DTYPE_FLOAT32},
                                                                 {333, v1::DTYPE_BYTES},
                                                                 {4 * 10000, v1::DTYPE_FLOAT32}};
  return *buckets;
}

Data MakeTerms() {
  Data data(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const BucketSpec& bucket : Buckets()) {
      std::vector<float> values((bucket.bytes + 3) / 4);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = 1.0f / static_cast<float>(3 * i + rank + 1);
      }
      data[rank].emplace_back(reinterpret_cast<const char*>(values.data()), bucket.bytes);
    }
  }
  return data;
}

// What two steps end with.
Data TwoSteps(const std::string& backend, const BackendCluster::Settings& settings,
              const Deal& deal = OneEach(kRanks)) {
  BackendCluster cluster(backend, deal, Buckets(), settings);
  Data data;
  for (int step = 0; step < 2; ++step) {
    data = MakeTerms();
    for (const absl::Status& status : cluster.RunStep(step, &data)) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  return data;
}

class GroupsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GroupsTest, RunStep_ThreeGroups_SameBitsAsOne) {
  BackendCluster::Settings settings;
  const Data one = TwoSteps(GetParam(), settings);
  settings.groups = 3;
  EXPECT_TRUE(TwoSteps(GetParam(), settings) == one);
}

// As after a loss.
TEST_P(GroupsTest, RunStep_ThreeGroupsOfAWorkerWithTwoRanks_SameBitsAsOne) {
  if (!TraitsOfBackend(GetParam()).several_ranks) return;
  BackendCluster::Settings settings;
  const Data one = TwoSteps(GetParam(), settings);
  settings.groups = 3;
  EXPECT_TRUE(TwoSteps(GetParam(), settings, Deal{{0, 2}, {1}}) == one);
}

INSTANTIATE_TEST_SUITE_P(Backends, GroupsTest, ::testing::ValuesIn(BackendsOfOneProcess()),
                         [](const auto& info) { return info.param; });

TransferTotals TotalsOfRing(int groups) {
  BackendCluster::Settings settings;
  settings.groups = groups;
  BackendCluster cluster("ring", kRanks, Buckets(), settings);
  Data data = MakeTerms();
  for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  return cluster.exchange(1).totals();
}

// The groups share the buckets, and each has connections of its own.
TEST(GroupsTotalsTest, ThreeGroups_ALinkHasTheBytesOfAll) {
  const TransferTotals one = TotalsOfRing(1);
  const TransferTotals three = TotalsOfRing(3);
  EXPECT_GT(one.bytes_sent, 0u);
  EXPECT_EQ(three.sent_on, one.sent_on);
  EXPECT_EQ(three.bytes_sent, one.bytes_sent);
  EXPECT_EQ(three.bytes_received, one.bytes_received);
}

// What rank 0 gathers it folds.
TEST(GathersTest, RunStep_Gloo_SameBitsAsTheFold) {
  BackendCluster::Settings settings;
  const Data fold = TwoSteps("coordinator", settings);
  const Data ring = TwoSteps("gloo", settings);
  settings.gathers = true;
  EXPECT_TRUE(TwoSteps("gloo", settings) == fold);
  EXPECT_FALSE(ring == fold);  // else this would show nothing
}

}  // namespace
}  // namespace gradwire::groups_test
