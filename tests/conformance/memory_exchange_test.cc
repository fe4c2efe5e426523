// Back end memory beyond what all back ends have in common (backend_test.cc, loss_test.cc).

#include "worker/backends/memory/memory_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "worker/backends/memory/memory_budget.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

using ::testing::HasSubstr;

View TwoWorkers() {
  View view;
  view.run_id = MakeRunId();
  view.generation = Generation(1);
  view.chunk_bytes = 64;
  view.world_size = 2;
  for (const int rank : {0, 1}) {
    view.members.push_back({MakeIncarnation(),
                            "127.0.0.1:1",
                            {Rank(rank)},
                            static_cast<uint32_t>(getpid()),
                            MemoryId()});
  }
  return view;
}

class MemoryExchangeTest : public ::testing::Test {
 protected:
  // The exchange of worker `rank`, with one bucket.
  std::unique_ptr<MemoryExchange> Start(int rank) {
    View view = view_;
    view.self = view.members[rank].incarnation;
    auto exchange = std::make_unique<MemoryExchange>(view, MemoryWire(), nullptr, nullptr);
    EXPECT_TRUE(exchange->Start().ok());
    exchange->AddLayout(LayoutId(0), {{sizeof(float), v1::DTYPE_FLOAT32}});
    return exchange;
  }
  std::future<absl::Status> Average(MemoryExchange* exchange, int rank) {
    auto ended = std::make_shared<std::promise<absl::Status>>();
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    exchange->Expect(key, BytesOf(&means_[rank]), SteadyNow() + absl::Minutes(1),
                     [ended](const absl::Status& status) { ended->set_value(status); });
    exchange->Contribute(key, Rank(rank), BytesOf(&terms_[rank]));
    return ended->get_future();
  }
  static absl::Span<uint8_t> BytesOf(float* value) {
    return {reinterpret_cast<uint8_t*>(value), sizeof(float)};
  }

  View view_ = TwoWorkers();
  float terms_[2] = {1, 2};
  float means_[2] = {};
};

TEST_F(MemoryExchangeTest, Average_TwoWorkers_TheMeanAndNothingSent) {
  const auto first = Start(0);
  const auto second = Start(1);
  auto a = Average(first.get(), 0);
  auto b = Average(second.get(), 1);
  EXPECT_TRUE(a.get().ok());
  EXPECT_TRUE(b.get().ok());
  EXPECT_EQ(means_[0], 1.5f);
  EXPECT_EQ(means_[1], 1.5f);
  EXPECT_EQ(first->totals().bytes_sent, 0u);
}

// The other one's bell does not exist yet when this one has contributed; it is rung when it is met.
// Without that the other would sleep its full 100 ms each time.
TEST_F(MemoryExchangeTest, Publish_BeforeAnotherIsMet_ItHearsOfItAtOnce) {
  absl::Duration total;
  for (int i = 0; i < 20; ++i) {
    const auto first = Start(0);
    auto a = Average(first.get(), 0);
    const absl::Time begin = SteadyNow();
    const auto second = Start(1);
    auto b = Average(second.get(), 1);
    EXPECT_TRUE(a.get().ok());
    EXPECT_TRUE(b.get().ok());
    total += SteadyNow() - begin;
  }
  EXPECT_LT(total, absl::Seconds(1));
}

TEST_F(MemoryExchangeTest, Cancel_OfAnother_EndsTheWaitForItAndNamesIt) {
  const auto first = Start(0);
  const auto second = Start(1);
  auto a = Average(first.get(), 0);
  second->Cancel(absl::AbortedError("it saw a loss"));
  const absl::Status status = a.get();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (127.0.0.1:1) has ended"));
  ASSERT_TRUE(first->suspect().has_value());
  EXPECT_EQ(first->suspect()->worker, view_.members[1].incarnation);
}

// Its terms are there, but not what it had to add up.
TEST_F(MemoryExchangeTest, Cancel_OfAnotherThatHasContributed_ItsPartOfTheMeanIsMissing) {
  const auto first = Start(0);
  const auto second = Start(1);
  auto b = Average(second.get(), 1);
  second->Cancel(absl::AbortedError("it saw a loss"));
  EXPECT_TRUE(absl::IsAborted(b.get()));
  const absl::Status status = Average(first.get(), 0).get();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 (127.0.0.1:1) has ended; a part of the mean of step 0, bucket 0"));
}

TEST_F(MemoryExchangeTest, Deadline_OneHasContributedNothing_SaysWhichOne) {
  const char* const missing[] = {"this worker's own gradients are missing",
                                 "gradients of rank 1 (127.0.0.1:1) did not come"};
  for (const int late : {0, 1}) {
    view_ = TwoWorkers();
    const auto first = Start(0);
    const auto second = Start(1);
    std::promise<absl::Status> ended;
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    first->Expect(key, BytesOf(&means_[0]), SteadyNow() + absl::Milliseconds(300),
                  [&ended](const absl::Status& status) { ended.set_value(status); });
    if (late == 0) {
      Average(second.get(), 1);
    } else {
      first->Contribute(key, Rank(0), BytesOf(&terms_[0]));
    }
    EXPECT_EQ(ended.get_future().get(),
              absl::DeadlineExceededError(std::string("step 0, bucket 0: ") + missing[late]));
  }
}

// As without the right to look into another process. Without an error the bucket would wait for
// its deadline.
TEST_F(MemoryExchangeTest, Start_MemoryOfAnotherCannotBeMapped_EndsTheBucketAndSaysWhatHelps) {
  const auto other = SharedMemory::Make(MemoryName(view_, view_.members[1].incarnation, "bell"),
                                        3 * sizeof(Bell), SharedMemory::Writer::kAll);
  ASSERT_TRUE(other.ok()) << other.status();
  const auto exchange = Start(0);
  const absl::Status status = Average(exchange.get(), 0).get();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot share memory with rank 1 (127.0.0.1:1) (--shared-memory off "
                        "exchanges by the network): shared memory gradwire-"));
  EXPECT_FALSE(exchange->suspect().has_value());
}

// Rank 1 has contributed nothing yet, but it still runs.
TEST_F(MemoryExchangeTest, Cancel_OfTheLastOfThree_NamesItAndNotTheOneThatIsLate) {
  view_.world_size = 3;
  Member third = view_.members[1];
  third.incarnation = MakeIncarnation();
  third.ranks = {Rank(2)};
  view_.members.push_back(third);
  const auto first = Start(0);
  const auto second = Start(1);
  const auto last = Start(2);
  auto a = Average(first.get(), 0);
  last->Cancel(absl::AbortedError("it saw a loss"));
  const absl::Status status = a.get();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 (127.0.0.1:1) has ended"));
  ASSERT_TRUE(first->suspect().has_value());
  EXPECT_EQ(first->suspect()->worker, third.incarnation);
}

TEST_F(MemoryExchangeTest, Finish_OfAnother_IsNoSuspicion) {
  const auto first = Start(0);
  const auto second = Start(1);
  EXPECT_TRUE(second->Finish(SteadyNow()).ok());
  second->Cancel(absl::CancelledError("over"));
  const absl::Status status = Average(first.get(), 0).get();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_FALSE(first->suspect().has_value());
}

TEST_F(MemoryExchangeTest, AddLayout_BeyondALimit_EndsTheBucketAndNamesIt) {
  view_.members[1].limits.address = 100;
  const auto exchange = Start(0);
  const absl::Status status = Average(exchange.get(), 0).get();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 (127.0.0.1:1) may get 0.0 MB (half of the addresses that ulimit "
                        "-v leaves), but 0.0 MB of shared memory are needed"));
}

TEST_F(MemoryExchangeTest, AddLayout_TooLarge_EndsTheBucketWithTheReason) {
  const auto exchange = Start(0);
  exchange->AddLayout(LayoutId(1), {{uint64_t{1} << 60, v1::DTYPE_FLOAT32}});
  std::promise<absl::Status> ended;
  const BucketKey key{LayoutId(1), Step(0), Bucket(0)};
  exchange->Expect(key, BytesOf(&means_[0]), SteadyNow() + absl::Minutes(1),
                   [&ended](const absl::Status& status) { ended.set_value(status); });
  exchange->Contribute(key, Rank(0), BytesOf(&terms_[0]));
  const absl::Status status = ended.get_future().get();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

// Bytes are copied, so they have no sum. Layout 1 is like that of an evaluation, which is not told.
TEST_F(MemoryExchangeTest, OnSpan_SumsAndBytes_OfEachSumItsStepAndBucket) {
  view_.members.resize(1);
  view_.world_size = 1;
  view_.self = view_.members[0].incarnation;
  std::vector<TraceSpan> spans;
  MemoryExchange exchange(view_, MemoryWire(), nullptr,
                          [&spans](const TraceSpan& span) { spans.push_back(span); });
  ASSERT_TRUE(exchange.Start().ok());
  const BucketSpec bytes = {sizeof(float), v1::DTYPE_BYTES, Rank(0)};
  const BucketSpec floats = {sizeof(float), v1::DTYPE_FLOAT32};
  exchange.AddLayout(LayoutId(0), {floats, floats, bytes});
  exchange.AddLayout(LayoutId(1), {bytes, floats});
  const std::vector<std::pair<int, int>> all = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}};
  for (const auto& [layout, bucket] : all) {
    const BucketKey key{LayoutId(layout), Step(0), Bucket(bucket)};
    auto ended = std::make_shared<std::promise<absl::Status>>();
    exchange.Expect(key, BytesOf(&means_[0]), SteadyNow() + absl::Minutes(1),
                    [ended](const absl::Status& status) { ended->set_value(status); });
    exchange.Contribute(key, Rank(0), BytesOf(&terms_[0]));
    EXPECT_EQ(ended->get_future().get(), absl::OkStatus());
  }
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].bucket, Bucket(0));
  EXPECT_EQ(spans[1].lane, TraceSpan::Lane::kAggregation);
  EXPECT_EQ(spans[1].step, Step(0));
  EXPECT_EQ(spans[1].bucket, Bucket(1));
  EXPECT_LE(spans[1].begin, spans[1].end);
}

// Rank 0 has contributed its bytes before rank 1 expects them, so that rank 1's bucket may be
// complete at any moment from then on.
TEST_F(MemoryExchangeTest, Broadcast_RootIsAhead_EachBucketEnds) {
  constexpr int kBuckets = 64, kSteps = 2000;
  std::atomic<int> ended;  // outlives the exchanges
  std::vector<std::unique_ptr<MemoryExchange>> exchanges;
  for (const int rank : {0, 1}) {
    exchanges.push_back(Start(rank));
    exchanges[rank]->AddLayout(
        LayoutId(1), std::vector<BucketSpec>(kBuckets, {sizeof(float), v1::DTYPE_BYTES, Rank(0)}));
  }
  std::vector<float> results(2 * kBuckets);
  for (uint64_t step = 0; step < kSteps; ++step) {
    ended = 0;
    for (const int rank : {0, 1}) {
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        const BucketKey key{LayoutId(1), Step(step), Bucket(bucket)};
        exchanges[rank]->Expect(key, BytesOf(&results[rank * kBuckets + bucket]),
                                SteadyNow() + absl::Minutes(1),
                                [&ended](const absl::Status& status) { ended += status.ok(); });
        if (rank == 0) exchanges[0]->Contribute(key, Rank(0), BytesOf(&terms_[0]));
      }
    }
    const absl::Time deadline = SteadyNow() + absl::Seconds(10);
    while (ended < 2 * kBuckets && SteadyNow() < deadline) std::this_thread::yield();
    ASSERT_EQ(ended, 2 * kBuckets) << "step " << step;
  }
}

BackendOptions OptionsOf(v1::DType wire, bool gathers = false) {
  BackendOptions options;
  options.wire = wire;
  options.gathers = gathers;
  return options;
}

TEST(ChosenBackendTest, Auto_WhereAllShareMemory_IsMemoryForEveryType) {
  const View view = TwoWorkers();
  for (const v1::DType wire : {v1::DTYPE_FLOAT32, v1::DTYPE_BFLOAT16, v1::DTYPE_INT8}) {
    EXPECT_EQ(ChosenBackend(kAutoBackend, view, OptionsOf(wire)), kAutoOfHost);
    EXPECT_EQ(ChosenBackend(kAutoBackend, view, OptionsOf(wire, true)), kAutoOfHost);
  }
  EXPECT_EQ(ChosenBackend("ring", view, {}), "ring");
}

TEST(ChosenBackendTest, Auto_BetweenHosts_DependsOnSyncAndType) {
  View view = TwoWorkers();
  view.members[1].memory = "another host";
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, {}), "ring");
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, OptionsOf(v1::DTYPE_INT8)), "sharded");
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, OptionsOf(v1::DTYPE_FLOAT32, true)), "coordinator");
  view.aggregators = {"a:1"};
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, {}), "sharded");
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, OptionsOf(v1::DTYPE_FLOAT32, true)), "sharded");
}

// Four workers on two hosts, with the ranks of each.
View TwoHosts(const std::vector<std::vector<int>>& ranks) {
  View view = TwoWorkers();
  const Member like = view.members[0];
  view.members.clear();
  for (size_t i = 0; i < ranks.size(); ++i) {
    Member member = like;
    member.ranks.clear();
    for (const int rank : ranks[i]) member.ranks.push_back(Rank(rank));
    member.memory = i < ranks.size() / 2 ? "host a" : "host b";
    view.members.push_back(std::move(member));
  }
  return view;
}

TEST(ChosenBackendTest, DescribeBackend_SeveralWorkersOnAHost_NamesTheirRanks) {
  const View view = TwoHosts({{0}, {1}, {2}, {4, 3}});
  EXPECT_EQ(DescribeBackend(kAutoBackend, view, {}), "ring, in memory among ranks 0-1 and 2-4");
  EXPECT_EQ(DescribeBackend(kAutoBackend, TwoHosts({{0}, {2}, {1}, {3}}), {}),
            "ring, in memory among ranks 0, 2 and 1, 3");
  EXPECT_EQ(DescribeBackend(kAutoBackend, TwoHosts({{0}, {1}}), {}), "ring");
}

TEST(ChosenBackendTest, GroupsInMemory_OnlyWherePayloadsGoThroughSlots) {
  const View view = TwoHosts({{0}, {1}, {2}, {3}});
  EXPECT_EQ(GroupsInMemory(kAutoBackend, view, {}),
            (std::vector<std::vector<Rank>>{{Rank(0), Rank(1)}, {Rank(2), Rank(3)}}));
  EXPECT_THAT(GroupsInMemory("ring", view, {}), ::testing::IsEmpty());
  EXPECT_EQ(DescribeBackend(kAutoBackend, view, OptionsOf(v1::DTYPE_INT8)),
            "sharded, in memory among ranks 0-1 and 2-3");
  EXPECT_THAT(GroupsInMemory("sharded", view, {}), ::testing::IsEmpty());
  View with_aggregators = view;
  with_aggregators.aggregators = {"10.10.1.9:1"};
  EXPECT_EQ(DescribeBackend(kAutoBackend, with_aggregators, {}), "sharded");
  EXPECT_THAT(GroupsInMemory(kAutoBackend, view, OptionsOf(v1::DTYPE_FLOAT32, true)),
              ::testing::IsEmpty());
}

// What such a worker exchanges with itself is in its own memory anyway.
TEST(ChosenBackendTest, GroupsInMemory_OneWorkerWithSeveralRanks_IsNone) {
  EXPECT_THAT(GroupsInMemory(kAutoBackend, TwoHosts({{0, 1}, {2}}), {}), ::testing::IsEmpty());
  EXPECT_EQ(DescribeBackend(kAutoBackend, TwoHosts({{0, 1}, {2, 3}}), {}), "ring");
}

TEST(ChosenBackendTest, GroupsInMemory_OneHost_AreAllRanksOfBackEndMemory) {
  const View view = TwoWorkers();
  EXPECT_EQ(GroupsInMemory(kAutoBackend, view, {}),
            (std::vector<std::vector<Rank>>{{Rank(0), Rank(1)}}));
  EXPECT_EQ(DescribeBackend(kAutoBackend, view, {}), "memory");
  EXPECT_THAT(GroupsInMemory("ring", view, {}), ::testing::IsEmpty());
}

// A view beyond a limit of memory has no slots either.
TEST(ChosenBackendTest, GroupsInMemory_OneHostBeyondALimit_None) {
  View view = TwoWorkers();
  view.members[1].limits.file = 1;
  const std::vector<BucketSpec> buckets(1, {1024, v1::DTYPE_FLOAT32, Rank(0)});
  EXPECT_EQ(DescribeBackend(kAutoBackend, view, {}, buckets), "ring");
}

TEST(ChosenBackendTest, Auto_BeyondTheLimitOfOne_IsNotMemory) {
  View view = TwoWorkers();
  const std::vector<BucketSpec> buckets = {{1 << 20, v1::DTYPE_FLOAT32}};
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, {}, buckets), kAutoOfHost);
  view.members[1].limits.file = 1 << 20;
  EXPECT_EQ(ChosenBackend(kAutoBackend, view, {}, buckets), "ring");
}

// A worker's memory has a term for each of its ranks and the means; 2.1 MB here.
class MemoryBudgetTest : public ::testing::TestWithParam<uint64_t MemoryLimits::*> {
 protected:
  absl::Status Add(uint64_t limit, int layouts) {
    View view = TwoWorkers();
    view.members[0].limits.*GetParam() = limit;
    MemoryBudget budget(view, MemoryWire());
    absl::Status added;
    for (int i = 0; i < layouts; ++i) added = budget.Add({{1 << 20, v1::DTYPE_FLOAT32}});
    return added;
  }
};

TEST_P(MemoryBudgetTest, Add_WithinTheLimit_Ok) { EXPECT_TRUE(Add(9 << 20, 1).ok()); }

TEST_P(MemoryBudgetTest, Add_BeyondTheLimit_NamesTheWorkerAndTheLimit) {
  const absl::Status status = Add(2 << 20, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 (127.0.0.1:1) may get "));
}

// Both workers' memory is 4.2 MB, of which 6 MiB have room for 3; a file is one worker's.
TEST_P(MemoryBudgetTest, Add_RoomForOneWorker_IsEnoughForFilesOnly) {
  EXPECT_EQ(Add(6 << 20, 1).ok(), GetParam() == &MemoryLimits::file);
}

INSTANTIATE_TEST_SUITE_P(Limits, MemoryBudgetTest,
                         ::testing::Values(&MemoryLimits::file, &MemoryLimits::address,
                                           &MemoryLimits::group, &MemoryLimits::host));

TEST(MemoryBudgetTest, Add_SecondLayout_CountsTheFirst) {
  View view = TwoWorkers();
  view.members[0].limits.host = 9 << 20;
  MemoryBudget budget(view, MemoryWire());
  const std::vector<BucketSpec> buckets = {{1 << 20, v1::DTYPE_FLOAT32}};
  EXPECT_TRUE(budget.Add(buckets).ok());
  EXPECT_FALSE(budget.Add(buckets).ok());
  EXPECT_FALSE(budget.Add(buckets).ok());  // it has added nothing
}

// Three arrays of 1 MiB on the first worker, two on the other one, and some pages.
TEST(MemoryBudgetTest, Add_WorkerWithTwoRanks_HasTheTermsOfBoth) {
  constexpr uint64_t kMiB = 1 << 20, kPages = 64 << 10;
  View view = TwoWorkers();
  view.world_size = 3;
  view.members[0].ranks = {Rank(0), Rank(2)};
  view.members[0].limits.file = 3 * kMiB + kPages;
  view.members[1].limits.file = 2 * kMiB + kPages;
  const std::vector<BucketSpec> buckets = {{kMiB, v1::DTYPE_FLOAT32}};
  const absl::Status fits = MemoryBudget(view, MemoryWire()).Add(buckets);
  EXPECT_TRUE(fits.ok()) << fits;
  view.members[0].limits.file = 3 * kMiB;
  const absl::Status refused = MemoryBudget(view, MemoryWire()).Add(buckets);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ranks 0, 2 (127.0.0.1:1) may get "));
}

TEST(MemoryBackendTest, Connect_WorkersOfTwoHosts_SaysWhatIsExpected) {
  View view = TwoWorkers();
  view.self = view.members[0].incarnation;
  view.members[1].memory = "another host";
  absl::optional<Incarnation> suspect;
  const auto backend = MakeBackend("memory", BackendOptions());
  ASSERT_TRUE(backend.ok());
  const absl::Status status = (*backend)->Connect(view, nullptr, &suspect).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected all on one host"));
}

}  // namespace
}  // namespace gradwire
