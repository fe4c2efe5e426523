// Back end auto between workers of one host: what is exchanged in memory, and what is not.

#include "worker/backends/auto/host_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "common/base/mutex.h"
#include "common/compress/compression.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/worker/ddp/telling_exchange.h"
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

  TwoWaysTest() : TwoWaysTest(Limited()) {}
  explicit TwoWaysTest(const BackendCluster::Settings& settings)
      : cluster_(kAutoBackend, 2, Buckets(), settings) {}

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

TEST_F(TwoWaysTest, Suspect_OverTheNetwork_IsTheWorkerWhosePartIsMissing) {
  AddLarge();
  std::vector<float> terms(kElements, 1), mean(kElements);
  std::promise<absl::Status> ended;
  const BucketKey key{kLarge, Step(0), Bucket(0)};
  cluster_.exchange(0).Expect(key, BytesOf(&mean), SteadyNow() + absl::Milliseconds(100),
                              [&ended](const absl::Status& status) { ended.set_value(status); });
  cluster_.exchange(0).Contribute(key, Rank(0), BytesOf(&terms));
  const absl::Status late = ended.get_future().get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  const absl::optional<Suspect> suspect = cluster_.exchange(0).suspect();
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->worker, cluster_.ViewOf(0).Carrier(Rank(1)).incarnation);
  EXPECT_EQ(suspect->failure, late);
}

class TwoCodedWaysTest : public TwoWaysTest {
 protected:
  TwoCodedWaysTest() : TwoWaysTest(Coded()) {}

  static BackendCluster::Settings Coded() {
    BackendCluster::Settings settings = Limited();
    settings.compression = ParseCompression("int8").value();
    settings.wire = settings.compression.dtype;
    return settings;
  }
};

// A rank's terms and the means, each of 20,000 and then of 100,000 float32.
TEST_F(TwoCodedWaysTest, Totals_CodedInMemoryAndOverTheNetwork_CountBoth) {
  Data data = {{FloatsOf(1)}, {FloatsOf(2)}};
  for (const absl::Status& status : cluster_.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
  AddLarge();
  const CompressionTotals in_memory = cluster_.exchange(0).totals().compressed;
  EXPECT_EQ(in_memory.whole_bytes, 2 * 4 * 20000u);
  EXPECT_GT(in_memory.gradient_square, 0);
  const absl::Status averaged = AverageLarge(1);
  ASSERT_TRUE(averaged.ok()) << averaged;
  const CompressionTotals all = cluster_.exchange(0).totals().compressed;
  EXPECT_EQ(all.whole_bytes, 2 * 4 * (20000u + kElements));
  EXPECT_GT(all.coded_bytes, in_memory.coded_bytes);
  EXPECT_GT(all.gradient_square, in_memory.gradient_square);
}

// Also what is over before the network is needed ends what comes later.
TEST_F(TwoWaysTest, Cancel_BeforeThereIsANetwork_EndsWhatGoesOverIt) {
  for (const int worker : {0, 1}) cluster_.exchange(worker).Cancel(absl::AbortedError("enough"));
  AddLarge();
  EXPECT_EQ(AverageLarge(1, absl::Seconds(2)), absl::AbortedError("enough"));
}

// One worker, whose limit allows no memory.
class HostExchangeConnectTest : public ::testing::Test {
 protected:
  static constexpr BucketKey kKey{LayoutId(0), Step(0), Bucket(0)};

  std::unique_ptr<HostExchange> Make(HostExchange::ConnectNetwork connect) {
    View view;
    view.run_id = MakeRunId();
    view.generation = Generation(1);
    view.chunk_bytes = 64;
    view.world_size = 1;
    view.members = {
        {MakeIncarnation(), "127.0.0.1:1", {Rank(0)}, static_cast<uint32_t>(getpid()), MemoryId()}};
    view.members[0].limits.file = 1;
    view.self = view.members[0].incarnation;
    return std::make_unique<HostExchange>(backend_.ConnectMemory(view).value(), "ring",
                                          std::move(connect));
  }
  static std::vector<BucketSpec> OneFloat() { return {{sizeof(float), v1::DTYPE_FLOAT32}}; }

  MemoryBackend backend_{BackendOptions()};
};

// The coordinator must learn of the worker that cannot be reached.
TEST_F(HostExchangeConnectTest, AddLayout_NetworkCannotConnect_EndsTheBucketAndNamesTheSuspect) {
  const absl::Status unreachable = absl::UnavailableError("no way there");
  float term = 1, mean = 0;
  std::promise<absl::Status> ended;
  const auto exchange = Make([&unreachable](absl::optional<Incarnation>* suspect) {
    *suspect = Incarnation(12);
    return unreachable;
  });
  EXPECT_FALSE(exchange->suspect().has_value());
  exchange->AddLayout(LayoutId(0), OneFloat());
  exchange->Expect(kKey, {reinterpret_cast<uint8_t*>(&mean), sizeof(float)},
                   SteadyNow() + absl::Minutes(1),
                   [&ended](const absl::Status& status) { ended.set_value(status); });
  exchange->Contribute(kKey, Rank(0), {reinterpret_cast<uint8_t*>(&term), sizeof(float)});
  EXPECT_EQ(ended.get_future().get(), unreachable);
  const absl::optional<Suspect> suspect = exchange->suspect();
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->worker, Incarnation(12));
  EXPECT_EQ(suspect->failure, unreachable);
}

TEST_F(HostExchangeConnectTest, TwoLayoutsOverTheNetwork_OneConnectionThatIsAskedAndTold) {
  gradwire::testing::TellingExchange* network = nullptr;
  int connected = 0;
  const auto exchange = Make([&](absl::optional<Incarnation>*) {
    auto made = std::make_unique<gradwire::testing::TellingExchange>();
    network = made.get();
    ++connected;
    return std::unique_ptr<Exchange>(std::move(made));
  });
  for (const int layout : {0, 1}) {
    exchange->AddLayout(LayoutId(layout), OneFloat());
    EXPECT_EQ(network->added, LayoutId(layout));
  }
  EXPECT_EQ(connected, 1);
  EXPECT_TRUE(exchange->TermsMemory(LayoutId(1), Bucket(0), Rank(0)).bytes.data() ==
              network->terms.data());
  EXPECT_TRUE(exchange->ResultMemory(LayoutId(1), Bucket(0)).bytes.data() ==
              network->result.data());
  EXPECT_EQ(exchange->Kept(LayoutId(1)).size(), 1u);
  EXPECT_EQ(exchange->totals().bytes_sent, 7u);
  EXPECT_EQ(exchange->suspect()->worker, Incarnation(4));
  EXPECT_EQ(exchange->Finish(SteadyNow()), absl::AbortedError("rank 1 is busy"));
}

TEST_F(HostExchangeTest, Cancel_OverTheNetwork_EndsItWithTheReason) {
  BackendCluster cluster(kAutoBackend, 2, Buckets(), LimitedTo(100 << 10));
  cluster.exchange(0).Cancel(absl::AbortedError("enough"));
  Data data = {{FloatsOf(1)}, {FloatsOf(2)}};
  EXPECT_EQ(cluster.RunStep(0, &data, absl::Seconds(2))[0], absl::AbortedError("enough"));
}

}  // namespace
}  // namespace gradwire::host_exchange_test
