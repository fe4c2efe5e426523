// Every row of the table of back ends has to keep the contract of backend.h.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "common/fold.h"
#include "tests/cluster/backend_cluster.h"

namespace gradwire {
namespace {

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

std::string RandomFloats(size_t count, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::string bytes(4 * count, '\0');
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(*random);
    std::memcpy(&bytes[4 * i], &value, 4);
  }
  return bytes;
}

Data MakeData(const std::vector<BucketSpec>& buckets, int world_size, uint64_t seed) {
  std::mt19937 random(seed);
  Data data(world_size);
  for (auto& rank : data) {
    for (const BucketSpec& bucket : buckets) {
      rank.push_back(RandomFloats((bucket.bytes + 3) / 4, &random).substr(0, bucket.bytes));
    }
  }
  return data;
}

// The fold of all ranks' bucket, or rank 0's bytes.
std::string Expected(const Data& data, size_t bucket, v1::DType dtype) {
  if (dtype == v1::DTYPE_BYTES) return data[0][bucket];
  std::vector<Pieces> terms;
  for (const auto& rank : data) {
    terms.push_back({{reinterpret_cast<const uint8_t*>(rank[bucket].data()), rank[bucket].size()}});
  }
  std::vector<float> mean(data[0][bucket].size() / 4);
  Fold(terms, absl::MakeSpan(mean));
  return std::string(reinterpret_cast<const char*>(mean.data()), 4 * mean.size());
}

void ExpectNear(const std::string& got, const std::string& expected) {
  for (size_t i = 0; i < expected.size() / 4; ++i) {
    float g, e;
    std::memcpy(&g, &got[4 * i], 4);
    std::memcpy(&e, &expected[4 * i], 4);
    ASSERT_NEAR(g, e, 1e-5 * std::max(1.0f, std::abs(e))) << "element " << i;
  }
}

bool IsExact(const std::string& backend) { return backend == "coordinator" || backend == "sharded"; }

struct Case {
  std::string backend;
  int world_size;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
#define GRADWIRE_BACKEND(name, factory, help) \
  for (int world_size : {1, 2, 3, 4, 5, 16}) cases.push_back({name, world_size});
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND
  return cases;
}

class BackendTest : public testing::TestWithParam<Case> {
 protected:
  // Runs `steps` steps and checks what came out.
  void RunAndCheck(const std::vector<BucketSpec>& buckets, int steps,
                   const std::function<void(int)>& before = nullptr) {
    const auto [backend, world_size] = GetParam();
    BackendCluster cluster(backend, world_size, buckets);
    for (int step = 0; step < steps; ++step) {
      Data data = MakeData(buckets, world_size, step + 1);
      const Data terms = data;
      for (const absl::Status& status : cluster.RunStep(step, &data, absl::Seconds(60), before)) {
        ASSERT_TRUE(status.ok()) << status;
      }
      Check(buckets, terms, data);
    }
    for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  }

  void Check(const std::vector<BucketSpec>& buckets, const Data& terms, const Data& data) {
    for (size_t b = 0; b < buckets.size(); ++b) {
      const std::string expected = Expected(terms, b, buckets[b].dtype);
      for (const auto& rank : data) ASSERT_TRUE(rank[b] == data[0][b]) << "ranks differ";
      if (IsExact(GetParam().backend) || buckets[b].dtype == v1::DTYPE_BYTES) {
        ASSERT_TRUE(data[0][b] == expected) << "not the fold, bucket " << b;
      } else {
        ExpectNear(data[0][b], expected);
      }
    }
  }
};

TEST_P(BackendTest, RunStep_SeveralBucketsAndSteps_MeanOnAllRanks) {
  RunAndCheck(
      {{4 * 300000, v1::DTYPE_FLOAT32}, {22080, v1::DTYPE_BYTES}, {4 * 700001, v1::DTYPE_FLOAT32}},
      3);
}

TEST_P(BackendTest, RunStep_FewerElementsThanRanks_MeanOnAllRanks) {
  RunAndCheck({{4, v1::DTYPE_FLOAT32}, {8, v1::DTYPE_FLOAT32}, {1, v1::DTYPE_BYTES}}, 2);
}

TEST_P(BackendTest, RunStep_RanksComeInReverseOrder_MeanOnAllRanks) {
  // Each rank waits for the one above it, so that rank 0 comes last.
  std::atomic<int> turn{GetParam().world_size - 1};
  RunAndCheck({{4 * 1000, v1::DTYPE_FLOAT32}, {333, v1::DTYPE_BYTES}}, 1, [&turn](int rank) {
    while (turn.load() != rank) std::this_thread::yield();
    --turn;
  });
}

TEST_P(BackendTest, RunStep_OtherRanksAreThroughWithABucket_LateHandInWorks) {
  // Rank 1 opens the step with one bucket while the other ranks end another.
  const auto [backend, world_size] = GetParam();
  if (world_size < 2) return;
  const std::vector<BucketSpec> buckets = {{400, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}};
  BackendCluster cluster(backend, world_size, buckets);
  Data data = MakeData(buckets, world_size, 1);
  const Data terms = data;
  for (const absl::Status& status :
       cluster.RunStep(0, &data, absl::Seconds(60), nullptr, [](int rank, int bucket) {
         if (rank == 1 && bucket == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
       })) {
    ASSERT_TRUE(status.ok()) << status;
  }
  Check(buckets, terms, data);
}

class BackendFaultTest : public testing::TestWithParam<Case> {
 protected:
  BackendFaultTest()
      : buckets_({{4 * 1000, v1::DTYPE_FLOAT32}}),
        cluster_(GetParam().backend, GetParam().world_size, buckets_),
        terms_(1000),
        mean_(1000) {}

  // Rank 1 alone hands in its bucket of step 0.
  void Start(absl::Duration timeout) {
    cluster_.backend(1).AllReduceAsync({Step(0), Bucket(0)}, terms_, absl::MakeSpan(mean_),
                                       absl::Now() + timeout,
                                       [this](absl::Status status) { result_.set_value(status); });
  }
  absl::Status Wait() { return result_.get_future().get(); }

  const std::vector<BucketSpec> buckets_;
  BackendCluster cluster_;
  std::vector<float> terms_;
  std::vector<float> mean_;
  std::promise<absl::Status> result_;
};

TEST_P(BackendFaultTest, AllReduce_OtherRankStaysAway_DeadlineExceededNamesIt) {
  Start(absl::Milliseconds(300));
  const absl::Status status = Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("rank 0"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("step 0"));
}

TEST_P(BackendFaultTest, Cancel_StepUnderWay_EndsWithReason) {
  Start(absl::Seconds(60));
  cluster_.backend(1).Cancel(absl::AbortedError("rank 0 was lost in step 0"));
  EXPECT_EQ(Wait(), absl::AbortedError("rank 0 was lost in step 0"));
}

TEST_P(BackendFaultTest, AllReduce_AfterCancel_EndsWithReason) {
  cluster_.backend(1).Cancel(absl::AbortedError("rank 0 was lost in step 0"));
  Start(absl::Seconds(60));
  EXPECT_EQ(Wait(), absl::AbortedError("rank 0 was lost in step 0"));
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat(absl::StrReplaceAll(info.param.backend, {{"-", "_"}}), "_W",
                      info.param.world_size);
}

std::vector<Case> FaultCases() {
  std::vector<Case> cases;
  for (const Case& row : AllCases()) {
    if (row.world_size == 3) cases.push_back(row);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllBackends, BackendTest, testing::ValuesIn(AllCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(AllBackends, BackendFaultTest, testing::ValuesIn(FaultCases()), CaseName);

}  // namespace
}  // namespace gradwire
