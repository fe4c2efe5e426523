// Back end auto between workers of one host: what is exchanged in memory, and what is not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/memory_limits.h"
#include "common/base/mutex.h"
#include "tests/cluster/backend_cluster.h"
#include "worker/backends/memory/memory_backend.h"
#include "worker/backends/memory/memory_budget.h"
#include "worker/options/choices.h"

namespace gradwire::host_exchange_test {
namespace {

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

std::vector<BucketSpec> Buckets() { return {{4 * 20000, v1::DTYPE_FLOAT32}}; }

std::string FloatsOf(float value) {
  const std::vector<float> values(20000, value);
  return std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

class HostExchangeTest : public ::testing::Test {
 protected:
  // Two workers average 1 and 2 in step `step`.
  static void Average(BackendCluster* cluster, uint64_t step) {
    Data data = {{FloatsOf(1)}, {FloatsOf(2)}};
    for (const absl::Status& status : cluster->RunStep(step, &data)) {
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_TRUE(data[0][0] == FloatsOf(1.5f));
    EXPECT_TRUE(data[1][0] == FloatsOf(1.5f));
  }
  static BackendCluster::Settings LimitedTo(uint64_t bytes) {
    BackendCluster::Settings settings;
    settings.limits.file = bytes;
    return settings;
  }
};

TEST_F(HostExchangeTest, RunStep_WithinTheLimits_SendsNothing) {
  BackendCluster cluster(kAutoBackend, 2, Buckets(), LimitedTo(1 << 20));
  Average(&cluster, 0);
  EXPECT_EQ(cluster.exchange(0).totals().bytes_sent, 0u);
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
}

// 160 kB of a rank's terms and means.
TEST_F(HostExchangeTest, RunStep_BeyondTheLimits_GoesOverTheNetwork) {
  BackendCluster cluster(kAutoBackend, 2, Buckets(), LimitedTo(100 << 10));
  for (const uint64_t step : {0, 1}) Average(&cluster, step);
  EXPECT_GE(cluster.exchange(0).totals().bytes_sent, 2 * 4 * 20000u);
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
}

TEST(MemoryBudgetTest, Add_OneThatDoesNotFit_CountsAgainstNoLaterOne) {
  View view;
  view.members = {{Incarnation(1), "127.0.0.1:1", {Rank(0)}}};
  view.members[0].limits.host = 2 << 20;  // of which half may be taken
  MemoryBudget budget(view, MemoryWireOf({}));
  const std::vector<BucketSpec> large = {{1 << 20, v1::DTYPE_FLOAT32}};
  EXPECT_TRUE(absl::IsResourceExhausted(budget.Add(large)));
  EXPECT_EQ(budget.Add(Buckets()), absl::OkStatus());
}

struct LimitCase {
  uint64_t MemoryLimits::*limit;
  uint64_t least;  // that suffices for 100 bytes of its own and 300 of all workers
  const char* named;
};

// A worker that took more would be killed by the system, with all that shares its limit.
TEST(MemoryBudgetTest, CheckMemoryLimits_EachLimit_HoldsToTheByteAndIsNamed) {
  const LimitCase cases[] = {{&MemoryLimits::file, 100, "(a file by ulimit -f)"},
                             {&MemoryLimits::address, 600, "that ulimit -v leaves)"},
                             {&MemoryLimits::group, 600, "limit of its control group leaves)"},
                             {&MemoryLimits::host, 600, "is available on its host)"}};
  for (const LimitCase& one : cases) {
    Member member{Incarnation(1), "10.10.1.1:1", {Rank(2)}};
    member.limits.*one.limit = one.least;
    EXPECT_EQ(CheckMemoryLimits(member, 100, 300), absl::OkStatus()) << one.named;
    member.limits.*one.limit = one.least - 1;
    const absl::Status refused = CheckMemoryLimits(member, 100, 300);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), ::testing::StartsWith("rank 2 (10.10.1.1:1) may"));
    EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr(one.named));
  }
}

// Layout 0 is in memory, and layout 1 is beyond the limit.
class TwoWaysTest : public HostExchangeTest {
 protected:
  static constexpr LayoutId kLarge{1};
  static constexpr size_t kElements = 100000;

  TwoWaysTest() : cluster_(kAutoBackend, 2, Buckets(), Limited()) {}

  static BackendCluster::Settings Limited() {
    BackendCluster::Settings settings = LimitedTo(256 << 10);
    settings.wire = v1::DTYPE_FLOAT16;
    return settings;
  }
  void AddLarge() { cluster_.AddLayout(kLarge, {{4 * kElements, v1::DTYPE_FLOAT32}}); }
  // Step 0 of the large layout on both workers, with terms of `value`.
  absl::Status AverageLarge(float value, absl::Duration timeout = absl::Seconds(60)) {
    std::vector<float> terms(kElements, value);
    std::vector<std::vector<float>> means(2, std::vector<float>(kElements));
    BlockingCounter countdown(2);
    const BucketKey key{kLarge, Step(0), Bucket(0)};
    for (const int worker : {0, 1}) {
      cluster_.exchange(worker).Expect(
          key, BytesOf(&means[worker]), SteadyNow() + timeout,
          [&countdown](const absl::Status& status) { countdown.Done(status); });
    }
    for (const int worker : {0, 1}) {
      cluster_.exchange(worker).Contribute(key, Rank(worker), BytesOf(&terms));
    }
    return countdown.Wait();
  }
  static absl::Span<uint8_t> BytesOf(std::vector<float>* values) {
    return {reinterpret_cast<uint8_t*>(values->data()), 4 * values->size()};
  }

  BackendCluster cluster_;
};

// Too large for fp16.
TEST_F(TwoWaysTest, Totals_OverflowInMemoryAndOverTheNetwork_CountBoth) {
  Data data = {{FloatsOf(1e6f)}, {FloatsOf(1e6f)}};
  for (const absl::Status& status : cluster_.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cluster_.exchange(0).totals().overflow_steps, 1u);
  AddLarge();
  EXPECT_EQ(cluster_.exchange(0).totals().overflow_steps, 1u);
  const absl::Status averaged = AverageLarge(1e6f);
  ASSERT_TRUE(averaged.ok()) << averaged;
  for (const int worker : {0, 1}) {
    EXPECT_EQ(cluster_.exchange(worker).totals().overflow_steps, 2u) << "worker " << worker;
    EXPECT_GT(cluster_.exchange(worker).totals().bytes_sent, 0u);
  }
}

// Also what is over before the network is needed ends what comes later.
TEST_F(TwoWaysTest, Cancel_BeforeThereIsANetwork_EndsWhatGoesOverIt) {
  for (const int worker : {0, 1}) cluster_.exchange(worker).Cancel(absl::AbortedError("enough"));
  AddLarge();
  EXPECT_EQ(AverageLarge(1, absl::Seconds(2)), absl::AbortedError("enough"));
}

TEST_F(HostExchangeTest, Cancel_OverTheNetwork_EndsItWithTheReason) {
  BackendCluster cluster(kAutoBackend, 2, Buckets(), LimitedTo(100 << 10));
  cluster.exchange(0).Cancel(absl::AbortedError("enough"));
  Data data = {{FloatsOf(1)}, {FloatsOf(2)}};
  EXPECT_EQ(cluster.RunStep(0, &data, absl::Seconds(2))[0], absl::AbortedError("enough"));
}

}  // namespace
}  // namespace gradwire::host_exchange_test
