// Values are rounded in shared memory as they would be on a network, to the bit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"

namespace gradwire::memory_wire_test {
namespace {

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

struct Case {
  std::string network;  // whose bits memory gives
  bool gathers;
  v1::DType wire;
  Deal deal;
};

// Two sizes are not multiples of a block, a cache line or the number of workers.
const std::vector<BucketSpec>& Buckets() {
  static const auto* const buckets = new std::vector<BucketSpec>{{4 * 70001, v1::DTYPE_FLOAT32},
                                                                 {4 * 5, v1::DTYPE_FLOAT32},
                                                                 {77, v1::DTYPE_BYTES},
                                                                 {4 * 16384, v1::DTYPE_FLOAT32}};
  return *buckets;
}

Data DataOf(int world_size, float scale, const std::vector<BucketSpec>& buckets = Buckets()) {
  std::mt19937 random(world_size);
  Data data(world_size);
  for (auto& rank : data) {
    for (const BucketSpec& bucket : buckets) {
      const auto values = testing::RandomFloats(bucket.bytes / 4 + 1, &random, scale);
      rank.emplace_back(reinterpret_cast<const char*>(values.data()), bucket.bytes);
    }
  }
  return data;
}

class MemoryWireTest : public ::testing::TestWithParam<Case> {
 protected:
  int world_size() const {
    size_t ranks = 0;
    for (const auto& worker : GetParam().deal) ranks += worker.size();
    return static_cast<int>(ranks);
  }
  BackendCluster ClusterOf(const std::string& backend) const {
    BackendCluster::Settings settings;
    settings.wire = GetParam().wire;
    settings.gathers = GetParam().gathers;
    return BackendCluster(backend, GetParam().deal, Buckets(), settings);
  }
  Data ResultOf(const std::string& backend) const {
    BackendCluster cluster = ClusterOf(backend);
    Data data = DataOf(world_size(), 1);
    for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
    return data;
  }
};

TEST_P(MemoryWireTest, RunStep_InMemoryAndOverTheNetwork_TheSameBits) {
  EXPECT_TRUE(ResultOf("memory") == ResultOf(GetParam().network));
}

// Such buckets are copied past the caches.
TEST(MemoryLargeBucketTest, RunStep_TwoRanks_TheMeanAndTheBytesOfTheRoot) {
  const std::vector<BucketSpec> buckets = {{(8 << 20) + 4 * 3, v1::DTYPE_FLOAT32},
                                           {(8 << 20) + 5, v1::DTYPE_BYTES}};
  const Data terms = DataOf(2, 1, buckets);
  Data expected = terms;
  auto* mean = reinterpret_cast<float*>(&expected[0][0][0]);
  const auto* other = reinterpret_cast<const float*>(terms[1][0].data());
  for (size_t i = 0; i < buckets[0].bytes / 4; ++i) mean[i] = (mean[i] + other[i]) / 2;
  expected[1] = expected[0];

  Data results = terms;
  BackendCluster cluster("memory", OneEach(2), buckets, BackendCluster::Settings());
  for (const absl::Status& status : cluster.RunStep(0, &results)) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(results == expected);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const v1::DType wire : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
    for (const Deal& deal :
         {OneEach(1), OneEach(3), Deal{{0, 2}, {1}}, Deal{{0, 3}, {1}, {2, 4, 5}}}) {
      cases.push_back({"ring", false, wire, deal});
      cases.push_back({"coordinator", true, wire, deal});
      cases.push_back({"sharded", true, wire, deal});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Wires, MemoryWireTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(info.param.network, "_", WireName(info.param.wire), "_on",
                      info.param.deal.size(), "_", info.index);
});

// 70,000 is infinite in fp16. Each of two workers folds half of the bucket.
class MemoryOverflowTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr size_t kElements = 16384;
};

TEST_P(MemoryOverflowTest, RunStep_ValueTooLargeForTheWire_IsCounted) {
  BackendCluster::Settings settings;
  settings.wire = v1::DTYPE_FLOAT16;
  settings.gathers = GetParam();
  BackendCluster cluster("memory", 2, {{4 * kElements, v1::DTYPE_FLOAT32}}, settings);
  uint64_t step = 0, infinite = 0, counted = 0;
  // A term overflows, or nothing does.
  for (const float large : {1.0f, 70000.0f, 1.0f}) {
    for (const size_t at : {size_t{0}, kElements - 1}) {
      std::vector<float> values(kElements, 1);
      values[at] = large;
      const std::string bytes(reinterpret_cast<const char*>(values.data()), 4 * kElements);
      Data data = {{bytes}, {bytes}};
      for (const absl::Status& status : cluster.RunStep(step, &data)) ASSERT_TRUE(status.ok());
      std::memcpy(values.data(), data[0][0].data(), 4 * kElements);
      // The workers whose ranks caused it count it.
      const uint64_t before = counted;
      counted = 0;
      for (const size_t worker : {0, 1}) {
        counted += cluster.exchange(worker).totals().overflow_steps;
      }
      EXPECT_EQ(counted > before, std::isinf(values[at])) << large << " at " << at;
      if (std::isinf(values[at])) ++infinite;
      ++step;
    }
  }
  EXPECT_EQ(infinite, 2u);
}

// Rank 2 is the second rank of worker 0.
TEST_P(MemoryOverflowTest, RunStep_TooLargeForASecondRank_ItsWorkerAloneCountsIt) {
  BackendCluster::Settings settings;
  settings.wire = v1::DTYPE_FLOAT16;
  settings.gathers = GetParam();
  BackendCluster cluster("memory", Deal{{0, 2}, {1}}, {{4 * kElements, v1::DTYPE_FLOAT32}},
                         settings);
  std::vector<float> values(kElements, 1);
  const std::string small(reinterpret_cast<const char*>(values.data()), 4 * kElements);
  values[0] = 1e6f;
  const std::string large(reinterpret_cast<const char*>(values.data()), 4 * kElements);
  Data data = {{small}, {small}, {large}};
  for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cluster.exchange(0).totals().overflow_steps, 1u);
  EXPECT_EQ(cluster.exchange(1).totals().overflow_steps, 0u);
}

INSTANTIATE_TEST_SUITE_P(Gathers, MemoryOverflowTest, ::testing::Bool());

}  // namespace
}  // namespace gradwire::memory_wire_test
