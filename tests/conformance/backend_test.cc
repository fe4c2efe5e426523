// Every row of the table of back ends has to keep the contract of backend.h. Those that need a
// process for each rank do so in tests/mpi.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/fold/fold.h"
#include "tests/cluster/backend_cluster.h"
#include "tests/support/random_floats.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;

using Data = std::vector<std::vector<std::string>>;  // by rank, by bucket

Data MakeData(const std::vector<BucketSpec>& buckets, int world_size, uint64_t seed) {
  std::mt19937 random(seed);
  Data data(world_size);
  for (auto& rank : data) {
    for (const BucketSpec& bucket : buckets) {
      rank.push_back(testing::RandomFloatBytes(bucket.bytes, &random));
    }
  }
  return data;
}

// The fold of all ranks' bucket in the wire type, or the root's bytes.
std::string Expected(const Data& data, const std::vector<BucketSpec>& buckets, size_t bucket,
                     v1::DType wire) {
  const BucketSpec& spec = buckets[bucket];
  if (IsBroadcast(spec)) return data[spec.root.value()][bucket];
  std::vector<std::vector<uint8_t>> terms;
  std::vector<ByteSpans> pieces;
  std::vector<float> values(data[0][bucket].size() / 4);
  for (const auto& rank : data) {
    std::memcpy(values.data(), rank[bucket].data(), rank[bucket].size());
    terms.emplace_back(values.size() * ElementBytes(wire));
    Narrow(values, wire, terms.back().data());
  }
  for (const auto& term : terms) pieces.push_back({term});
  std::vector<uint8_t> mean(terms[0].size());
  const FoldBlocks blocks(WireSpecs(buckets, wire), static_cast<int>(data.size()));
  Fold(pieces, wire, blocks.Cut(Bucket(static_cast<int>(bucket)), 0, mean.size()),
       absl::MakeSpan(mean));
  Widen({mean}, wire, absl::MakeSpan(values));
  return std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

// Near, where W terms of about 1 were rounded on their way.
void ExpectNear(const std::string& got, const std::string& expected, v1::DType wire) {
  const double tolerance = wire == v1::DTYPE_FLOAT32   ? 1e-5
                           : wire == v1::DTYPE_FLOAT16 ? 1.0 / 256
                                                       : 1.0 / 32;
  for (size_t i = 0; i < expected.size() / 4; ++i) {
    float g, e;
    std::memcpy(&g, &got[4 * i], 4);
    std::memcpy(&e, &expected[4 * i], 4);
    ASSERT_NEAR(g, e, tolerance * std::max(1.0f, std::abs(e))) << "element " << i;
  }
}

// A row of the table, with what it says of itself.
struct Row {
  std::string name;
  BackendTraits traits;
};

const std::vector<Row>& Rows() {
  static const auto* const rows = [] {
    auto* made = new std::vector<Row>;
    for (const std::string& name : BackendsOfOneProcess()) {
      made->push_back({name, TraitsOfBackend(name)});
    }
    return made;
  }();
  return *rows;
}

struct Case {
  Row row;
  Deal deal;
  v1::DType wire;

  int world_size() const {
    int ranks = 0;
    for (const auto& worker : deal) ranks += static_cast<int>(worker.size());
    return ranks;
  }
};

std::string NameOf(const Case& value) {
  std::string name =
      absl::StrCat(absl::StrReplaceAll(value.row.name, {{"-", "_"}}), "_W", value.world_size());
  if (static_cast<int>(value.deal.size()) < value.world_size()) {
    absl::StrAppend(&name, "_on", value.deal.size());
    for (const auto& worker : value.deal) absl::StrAppend(&name, "_", absl::StrJoin(worker, ""));
  }
  return absl::StrCat(name, "_", WireName(value.wire));
}

// Instead of the raw bytes of the parameter.
void PrintTo(const Case& value, std::ostream* out) { *out << NameOf(value); }

std::string CaseName(const ::testing::TestParamInfo<Case>& info) { return NameOf(info.param); }

std::vector<Case> OneRankEach(const std::vector<int>& world_sizes) {
  std::vector<Case> cases;
  for (const Row& row : Rows()) {
    for (const int world_size : world_sizes) {
      cases.push_back({row, OneEach(world_size), v1::DTYPE_FLOAT32});
    }
  }
  return cases;
}

// Gloo has all ranks do everything in one order.
std::vector<Case> AnyOrderCases() {
  std::vector<Case> cases = OneRankEach({2});
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [](const Case& value) { return !value.row.traits.any_order; }),
              cases.end());
  return cases;
}

std::vector<Case> HalfCases() {
  std::vector<Case> cases;
  for (const Row& row : Rows()) {
    if (!row.traits.halves) continue;
    for (const v1::DType wire : {v1::DTYPE_BFLOAT16, v1::DTYPE_FLOAT16}) {
      cases.push_back({row, OneEach(3), wire});
    }
  }
  return cases;
}

// Values are rounded more often on the way around more ranks.
std::vector<Case> HalfCasesOfFive() {
  std::vector<Case> cases;
  for (Case value : HalfCases()) {
    if (value.wire != v1::DTYPE_BFLOAT16) continue;
    value.deal = OneEach(5);
    cases.push_back(value);
  }
  return cases;
}

// Workers that carry several ranks: evenly, unevenly, alone, and not side by side.
std::vector<Case> DealCases() {
  std::vector<Case> cases;
  for (const Row& row : Rows()) {
    if (!row.traits.several_ranks) continue;
    for (const Deal& deal :
         {Deal{{0, 1}, {2, 3}}, Deal{{0, 1, 2}, {3}}, Deal{{0, 1, 2}}, Deal{{0, 2}, {1, 3, 4}}}) {
      cases.push_back({row, deal, v1::DTYPE_FLOAT32});
    }
    if (row.traits.halves) cases.push_back({row, Deal{{0, 2}, {1}}, v1::DTYPE_BFLOAT16});
  }
  return cases;
}

class BackendTest : public ::testing::TestWithParam<Case> {
 protected:
  // Runs `steps` steps and checks what came out.
  void RunAndCheck(const std::vector<BucketSpec>& buckets, int steps,
                   const std::function<void(int)>& before = nullptr) {
    const int world_size = GetParam().world_size();
    BackendCluster cluster(GetParam().row.name, GetParam().deal, buckets,
                           {kChunkBytes, 0, 1, GetParam().wire});
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

  bool IsExact() const {
    return GetParam().row.traits.exact == Exact::kAlways ||
           (GetParam().row.traits.exact == Exact::kFloat32 && GetParam().wire == v1::DTYPE_FLOAT32);
  }

  void Check(const std::vector<BucketSpec>& buckets, const Data& terms, const Data& data) {
    for (size_t b = 0; b < buckets.size(); ++b) {
      const v1::DType wire = GetParam().wire;
      const std::string expected = Expected(terms, buckets, b, wire);
      for (const auto& rank : data) ASSERT_TRUE(rank[b] == data[0][b]) << "ranks differ";
      if (IsExact() || buckets[b].dtype == v1::DTYPE_BYTES) {
        ASSERT_TRUE(data[0][b] == expected) << "not the fold, bucket " << b;
      } else {
        ExpectNear(data[0][b], expected, wire);
      }
    }
  }
};

TEST_P(BackendTest, RunStep_SeveralBucketsAndSteps_MeanOnAllRanks) {
  RunAndCheck(
      {{4 * 300000, v1::DTYPE_FLOAT32}, {22080, v1::DTYPE_BYTES}, {4 * 700001, v1::DTYPE_FLOAT32}},
      3);
}

TEST_P(BackendTest, RunStep_BytesOfEveryRank_AllOnAllRanks) {
  std::vector<BucketSpec> buckets;
  for (int root = 0; root < GetParam().world_size(); ++root) {
    buckets.push_back({100000 + static_cast<uint64_t>(root), v1::DTYPE_BYTES, Rank(root)});
  }
  RunAndCheck(buckets, 3);
}

TEST_P(BackendTest, RunStep_FewerElementsThanRanks_MeanOnAllRanks) {
  RunAndCheck({{4, v1::DTYPE_FLOAT32}, {8, v1::DTYPE_FLOAT32}, {1, v1::DTYPE_BYTES}}, 2);
}

// Of workers that carry several ranks.
using BackendDealTest = BackendTest;

TEST_P(BackendDealTest, RunStep_SameBitsAsWorkersWithOneRankEach) {
  const std::vector<BucketSpec> buckets = {{4 * 150001, v1::DTYPE_FLOAT32},
                                           {4 * 10, v1::DTYPE_FLOAT32}};
  const Data terms = MakeData(buckets, GetParam().world_size(), 1);
  Data of_deal = terms;
  Data of_one_each = terms;
  BackendCluster dealt(GetParam().row.name, GetParam().deal, buckets,
                       {kChunkBytes, 0, 1, GetParam().wire});
  BackendCluster one_each(GetParam().row.name, GetParam().world_size(), buckets,
                          {kChunkBytes, 0, 1, GetParam().wire});
  for (const absl::Status& status : dealt.RunStep(0, &of_deal)) ASSERT_TRUE(status.ok()) << status;
  for (const absl::Status& status : one_each.RunStep(0, &of_one_each)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(of_deal == of_one_each);
}

// Of workers with one rank each.
using BackendOrderTest = BackendTest;

TEST_P(BackendOrderTest, RunStep_RanksComeInReverseOrder_MeanOnAllRanks) {
  // Each rank waits for the one above it, so that rank 0 comes last.
  std::atomic<int> turn{GetParam().world_size() - 1};
  RunAndCheck({{4 * 1000, v1::DTYPE_FLOAT32}, {333, v1::DTYPE_BYTES}}, 1, [&turn](int rank) {
    while (turn.load() != rank) std::this_thread::yield();
    --turn;
  });
}

TEST_P(BackendOrderTest, RunStep_OtherRanksAreThroughWithABucket_LateHandInWorks) {
  // Rank 1 opens the step with one bucket while the other ranks end another.
  const int world_size = GetParam().world_size();
  const std::vector<BucketSpec> buckets = {{400, v1::DTYPE_FLOAT32}, {33, v1::DTYPE_BYTES}};
  BackendCluster cluster(GetParam().row.name, GetParam().deal, buckets,
                         {kChunkBytes, 0, 1, GetParam().wire});
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

class BackendHalfTest : public ::testing::TestWithParam<Case> {
 protected:
  // Rank 1 itself rounds its value, also in the ring.
  static constexpr size_t kAt = 4 * 55;

  // One step of one bucket of 100 values, on a cluster of its own. Returns the
  // mean of the one value that is not 0.
  float Run(float others, float of_rank_1, std::vector<TransferTotals>* totals) {
    const int world_size = GetParam().world_size();
    BackendCluster cluster(GetParam().row.name, GetParam().deal, {{400, v1::DTYPE_FLOAT32}},
                           {kChunkBytes, 0, 1, GetParam().wire});
    Data data(world_size, {std::string(400, '\0')});
    for (int rank = 0; rank < world_size; ++rank) {
      std::memcpy(&data[rank][0][kAt], rank == 1 ? &of_rank_1 : &others, 4);
    }
    for (const absl::Status& status : cluster.RunStep(0, &data)) EXPECT_TRUE(status.ok()) << status;
    for (const auto& rank : data) EXPECT_TRUE(rank == data[0]) << "ranks differ";
    for (int rank = 0; rank < world_size; ++rank) {
      totals->push_back(cluster.exchange(rank).totals());
    }
    float mean;
    std::memcpy(&mean, &data[0][0][kAt], 4);
    return mean;
  }
};

TEST_P(BackendHalfTest, AllReduce_ValueTooLarge_MeanIsInfiniteAndItsRankCountsIt) {
  const float too_large = GetParam().wire == v1::DTYPE_FLOAT16 ? 1e30f : 3.4e38f;
  std::vector<TransferTotals> totals;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Run(0, too_large, &totals), std::numeric_limits<float>::infinity());
  const std::string log = ::testing::internal::GetCapturedStdout();
  const std::string row = GetParam().row.name;
  const bool rounds_sums = row == "ring" || row == "tree" || row == "memory";
  EXPECT_EQ(absl::StrContains(log, "or a sum of some ranks' gradients"), rounds_sums) << log;
  for (size_t rank = 0; rank < totals.size(); ++rank) {
    EXPECT_EQ(totals[rank].overflow_steps, rank == 1 ? 1 : 0) << rank;
  }
}

TEST_P(BackendHalfTest, AllReduce_InfiniteGradient_IsNoOverflow) {
  std::vector<TransferTotals> totals;
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Run(1, infinity, &totals), infinity);
  for (const TransferTotals& rank : totals) EXPECT_EQ(rank.overflow_steps, 0);
}

// About half: shares are whole chunks.
TEST_P(BackendHalfTest, AllReduce_Halves_MoveHalfTheBytes) {
  const int world_size = GetParam().world_size();
  const std::vector<BucketSpec> buckets = {{4 * 60000, v1::DTYPE_FLOAT32}};
  std::vector<uint64_t> sent;
  for (const v1::DType type : {v1::DTYPE_FLOAT32, GetParam().wire}) {
    BackendCluster cluster(GetParam().row.name, world_size, buckets, {4096, 0, 1, type});
    Data data = MakeData(buckets, world_size, 1);
    for (const absl::Status& status : cluster.RunStep(0, &data)) ASSERT_TRUE(status.ok()) << status;
    sent.push_back(cluster.exchange(0).totals().bytes_sent);
  }
  EXPECT_NEAR(sent[1], sent[0] / 2.0, 2 * 4096);
}

class BackendFaultTest : public ::testing::TestWithParam<Case> {
 protected:
  BackendFaultTest()
      : buckets_({{4 * 1000, v1::DTYPE_FLOAT32}}),
        cluster_(GetParam().row.name, GetParam().world_size(), buckets_),
        terms_(4000),
        mean_(4000) {}

  // Rank 1 alone contributes its bucket of step 0.
  void Start(absl::Duration timeout) {
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    cluster_.exchange(1).Expect(key, absl::MakeSpan(mean_), SteadyNow() + timeout,
                                [this](absl::Status status) { result_.set_value(status); });
    cluster_.exchange(1).Contribute(key, Rank(1), terms_);
  }
  absl::Status Wait() { return result_.get_future().get(); }

  const std::vector<BucketSpec> buckets_;
  BackendCluster cluster_;
  std::vector<uint8_t> terms_;
  std::vector<uint8_t> mean_;
  std::promise<absl::Status> result_;
};

TEST_P(BackendFaultTest, AllReduce_OtherRankStaysAway_DeadlineExceededNamesIt) {
  Start(absl::Milliseconds(300));
  const absl::Status status = Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("rank 0"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("step 0"));
}

TEST_P(BackendFaultTest, Cancel_StepUnderWay_EndsWithReason) {
  Start(absl::Seconds(60));
  cluster_.exchange(1).Cancel(absl::AbortedError("rank 0 was lost in step 0"));
  EXPECT_EQ(Wait(), absl::AbortedError("rank 0 was lost in step 0"));
}

TEST_P(BackendFaultTest, AllReduce_AfterCancel_EndsWithReason) {
  cluster_.exchange(1).Cancel(absl::AbortedError("rank 0 was lost in step 0"));
  Start(absl::Seconds(60));
  EXPECT_EQ(Wait(), absl::AbortedError("rank 0 was lost in step 0"));
}

// Two models in one run, of which one's buffers come from rank 0, which is ahead.
class BackendLayoutsTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr size_t kBytes = 4000;
  static constexpr LayoutId kGradients{0}, kBuffers{1};

  BackendLayoutsTest()
      : cluster_(GetParam().row.name, GetParam().world_size(), {{kBytes, v1::DTYPE_FLOAT32}}) {
    cluster_.AddLayout(kBuffers, {{kBytes, v1::DTYPE_BYTES, Rank(0)}});
  }

  std::future<absl::Status> Expect(int rank, LayoutId layout, std::vector<uint8_t>* result) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    cluster_.exchange(rank).Expect({layout, Step(0), Bucket(0)}, absl::MakeSpan(*result),
                                   SteadyNow() + absl::Seconds(20),
                                   [done](absl::Status status) { done->set_value(status); });
    return done->get_future();
  }
  void Contribute(int rank, LayoutId layout) {
    cluster_.exchange(rank).Contribute({layout, Step(0), Bucket(0)}, Rank(rank), ones_);
  }

  BackendCluster cluster_;
  const std::vector<uint8_t> ones_ = std::vector<uint8_t>(kBytes, 1);
  std::vector<uint8_t> gradients_[2] = {std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
  std::vector<uint8_t> buffers_[2] = {std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
};

TEST_P(BackendLayoutsTest, Expect_OtherLayoutsBytesCameBefore_AreKeptAndHoldUpNothing) {
  std::future<absl::Status> root = Expect(0, kBuffers, &buffers_[0]);
  Contribute(0, kBuffers);
  std::future<absl::Status> of_rank[2];
  for (const int rank : {0, 1}) of_rank[rank] = Expect(rank, kGradients, &gradients_[rank]);
  for (const int rank : {0, 1}) Contribute(rank, kGradients);
  for (const int rank : {0, 1}) EXPECT_EQ(of_rank[rank].get(), absl::OkStatus()) << rank;
  EXPECT_EQ(Expect(1, kBuffers, &buffers_[1]).get(), absl::OkStatus());
  EXPECT_EQ(root.get(), absl::OkStatus());
  EXPECT_EQ(buffers_[1], ones_);
  EXPECT_EQ(gradients_[1], gradients_[0]);
}

// A worker alone is its own neighbour; 16 are more than there are cores.
INSTANTIATE_TEST_SUITE_P(OneRankEach, BackendTest, ::testing::ValuesIn(OneRankEach({1, 2, 3, 5})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Long, BackendTest, ::testing::ValuesIn(OneRankEach({16})), CaseName);
INSTANTIATE_TEST_SUITE_P(Halves, BackendTest, ::testing::ValuesIn(HalfCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(HalvesOfFive, BackendTest, ::testing::ValuesIn(HalfCasesOfFive()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Deals, BackendTest, ::testing::ValuesIn(DealCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Deals, BackendDealTest, ::testing::ValuesIn(DealCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(OneRankEach, BackendOrderTest, ::testing::ValuesIn(OneRankEach({2, 5})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Halves, BackendHalfTest, ::testing::ValuesIn(HalfCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(OneRankEach, BackendLayoutsTest, ::testing::ValuesIn(AnyOrderCases()),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OneRankEach, BackendFaultTest, ::testing::ValuesIn(OneRankEach({3})),
                         CaseName);

}  // namespace
}  // namespace gradwire
