#include "bench/rank/collective_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <thread>

#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "tests/cluster/backend_cluster.h"

namespace gradwire {
namespace {

// One rank of one: the mean is the term, but for what a test wants wrong.
class FakeExchange : public Exchange {
 public:
  void AddLayout(LayoutId, std::vector<BucketSpec>) override {}
  void Expect(const BucketKey&, absl::Span<uint8_t> result, absl::Time by, Done done) override {
    result_ = result;
    deadline = by;
    done_ = std::move(done);
  }
  void Contribute(const BucketKey& key, Rank, absl::Span<const uint8_t> terms) override {
    std::copy(terms.begin(), terms.end(), result_.begin());
    // One bit of the first value's fraction.
    if (key.step == wrong_step) result_[2] ^= 0x40;
    totals_.bytes_sent += terms.size();
    totals_.bytes_received += 3 * terms.size();
    done_(key.step == failing_step ? absl::UnavailableError("rank 1 is gone") : absl::OkStatus());
  }
  void Cancel(absl::Status) override {}
  absl::Status Finish(absl::Time) override { return absl::OkStatus(); }
  TransferTotals totals() const override { return totals_; }

  absl::Time deadline;  // of the last Expect
  Step wrong_step{1000};
  Step failing_step{1000};

 private:
  absl::Span<uint8_t> result_;
  Done done_;
  TransferTotals totals_;
};

LoopOptions Loop(uint64_t bytes, int warmup, int iterations) {
  LoopOptions options;
  options.bytes = bytes;
  options.warmup = warmup;
  options.iterations = iterations;
  return options;
}

absl::StatusOr<LoopResult> RunAlone(FakeExchange* exchange, const LoopOptions& options) {
  const Pattern pattern(options.bytes / sizeof(float), 1, Rank(0), Tolerance{});
  return CollectiveLoop(exchange, Rank(0), 1, &pattern, options).Run();
}

TEST(CollectiveLoop, NoLimit_RunsWhatIsAskedFor) {
  FakeExchange exchange;
  const LoopResult result = *RunAlone(&exchange, Loop(400, 3, 5));
  EXPECT_EQ(result.seconds.size(), 5u);
  EXPECT_EQ(result.iterations_in_all, 2u + 1 + 3 + 1 + 5 + 1);
  EXPECT_EQ(result.checked, 100u * (2 + 3 + 5 + 1));
  EXPECT_EQ(result.wrong, 0u);
}

TEST(CollectiveLoop, Moved_CountsMeasuredIterationsOnly) {
  FakeExchange exchange;
  const LoopResult result = *RunAlone(&exchange, Loop(400, 3, 5));
  EXPECT_EQ(result.moved.bytes_sent, 2000u);
  EXPECT_EQ(result.moved.bytes_received, 6000u);
}

TEST(CollectiveLoop, CpuSeconds_CountsTheMeasuredIterations) {
  FakeExchange exchange;
  EXPECT_GT(RunAlone(&exchange, Loop(1 << 22, 1, 20))->cpu_seconds, 0);
}

TEST(CollectiveLoop, Operation_MayTakeAsLongAsAStep) {
  FakeExchange exchange;
  LoopOptions options = Loop(400, 1, 1);
  options.step_timeout = absl::Hours(1);
  const absl::Time begun = SteadyNow();
  ASSERT_TRUE(RunAlone(&exchange, options).ok());
  EXPECT_GE(exchange.deadline, begun + absl::Hours(1));
  EXPECT_LE(exchange.deadline, SteadyNow() + absl::Hours(1));
}

// Of this process so far.
double CpuSecondsNow() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(CollectiveLoop, CpuSeconds_CountsNothingFromBefore) {
  while (CpuSecondsNow() < 0.3) continue;
  const double before = CpuSecondsNow();
  FakeExchange exchange;
  const double cpu_seconds = RunAlone(&exchange, Loop(400, 3, 5))->cpu_seconds;
  EXPECT_GE(cpu_seconds, 0);
  EXPECT_LT(cpu_seconds, CpuSecondsNow() - before + 0.1);
}

TEST(CollectiveLoop, NoTime_RunsOnce) {
  FakeExchange exchange;
  LoopOptions options = Loop(4, 50, 50);
  options.limit = absl::ZeroDuration();
  const LoopResult result = *RunAlone(&exchange, options);
  EXPECT_EQ(result.seconds.size(), 1u);
  EXPECT_EQ(result.iterations_in_all, 2u + 1 + 1 + 1 + 1 + 1);
}

TEST(CollectiveLoop, WrongValueInAMeasuredIteration_IsCounted) {
  FakeExchange exchange;
  exchange.wrong_step = Step(8);  // 2 + 1 + 3 + 1 come before
  EXPECT_EQ(RunAlone(&exchange, Loop(400, 3, 5))->wrong, 1u);
}

TEST(CollectiveLoop, WrongValueAtTheEnd_IsCounted) {
  FakeExchange exchange;
  exchange.wrong_step = Step(12);
  EXPECT_EQ(RunAlone(&exchange, Loop(400, 3, 5))->wrong, 1u);
}

TEST(CollectiveLoop, BackendFails_NamesTheIteration) {
  FakeExchange exchange;
  exchange.failing_step = Step(9);
  const auto result = RunAlone(&exchange, Loop(400, 3, 5));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.status().message(), "iteration 9: rank 1 is gone");
}

TEST(CollectiveLoop, SharedTensorsAndNoMemoryForThem_SaysWhatHasIt) {
  FakeExchange exchange;
  LoopOptions options = Loop(400, 3, 5);
  options.shared_tensors = true;
  const absl::Status status = RunAlone(&exchange, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected back end memory"));
}

// Wrong values are noticed although the output cannot be erased before an iteration.
TEST(CollectiveLoop, SharedTensors_OfRealRanks_AllValuesChecked) {
  constexpr int kRanks = 3;
  constexpr uint64_t kBytes = 400000;
  BackendCluster cluster("memory", kRanks, {{kBytes, v1::DTYPE_FLOAT32}});
  LoopOptions options = Loop(kBytes, 2, 4);
  options.shared_tensors = true;
  std::vector<absl::StatusOr<LoopResult>> results(kRanks, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      // The last rank expects the values of another rank's place.
      const Pattern pattern(kBytes / sizeof(float), rank == 2 ? kRanks + 1 : kRanks, Rank(rank),
                            ToleranceOf("memory", "fp32", kRanks));
      results[rank] =
          CollectiveLoop(&cluster.exchange(rank), Rank(rank), kRanks, &pattern, options).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(results[rank].ok()) << results[rank].status();
    EXPECT_GT(results[rank]->checked, 2 * kBytes / sizeof(float));
    EXPECT_EQ(results[rank]->wrong > 0, rank == 2);
  }
}

// All ranks of one real back end, within a limit that cuts the loop short.
TEST(CollectiveLoop, RealRanksWithinALimit_AgreeOnTheirIterations) {
  constexpr int kRanks = 3;
  constexpr uint64_t kBytes = 40000;
  BackendCluster cluster("ring", kRanks, {{kBytes, v1::DTYPE_FLOAT32}});
  LoopOptions options = Loop(kBytes, 2, 1000000);
  options.limit = absl::Milliseconds(50);
  std::vector<absl::StatusOr<LoopResult>> results(kRanks, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Pattern pattern(kBytes / sizeof(float), kRanks, Rank(rank),
                            ToleranceOf("ring", "fp32", kRanks));
      results[rank] =
          CollectiveLoop(&cluster.exchange(rank), Rank(rank), kRanks, &pattern, options).Run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->seconds.size(), results[0]->seconds.size());
    EXPECT_LT(result->seconds.size(), 1000000u);
    EXPECT_EQ(result->wrong, 0u);
  }
  for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
}

// Every operation on real ranks, over the ways of the ring and the tree.
class OperationTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr int kRanks = 4;
  static constexpr uint64_t kBytes = 4 * 4 * 1000;

  explicit OperationTest() {
    options_.operation = OperationCalled(GetParam());
    options_.bytes = kBytes;
  }

  // Calls `body` with the loop of each rank at once.
  void OnAll(const std::string& backend, const std::function<void(int, CollectiveLoop*)>& body) {
    BackendCluster cluster(backend, kRanks, LoopBuckets(options_));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const Pattern pattern(options_.bytes / sizeof(float), kRanks, Rank(rank),
                              ToleranceOf(backend, "fp32", kRanks, options_.operation));
        CollectiveLoop loop(&cluster.exchange(rank), Rank(rank), kRanks, &pattern, options_);
        body(rank, &loop);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : cluster.Finish()) EXPECT_TRUE(status.ok()) << status;
  }

  LoopOptions options_;
};

TEST_P(OperationTest, Run_RingAndTree_NothingIsWrong) {
  options_.warmup = 2;
  options_.iterations = 5;
  for (const char* backend : {"ring", "tree"}) {
    OnAll(backend, [](int, CollectiveLoop* loop) {
      const absl::StatusOr<LoopResult> result = loop->Run();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->seconds.size(), 5u);
      EXPECT_EQ(result->wrong, 0u);
    });
  }
}

TEST_P(OperationTest, Show_Ring_BytesGoToTheRightAndSomethingComesOut) {
  options_.bytes = 4 * kRanks;
  std::vector<Shown> shown(kRanks);
  OnAll("ring", [&shown](int rank, CollectiveLoop* loop) { shown[rank] = *loop->Show(); });
  uint64_t sent = 0, got = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(shown[rank].input[2], 10 * rank + 2);
    for (const auto& [link, bytes] : shown[rank].moved.sent_on) {
      EXPECT_EQ(link.second, Rank((rank + 1) % kRanks));
      sent += bytes;
    }
    got += std::count_if(shown[rank].output.begin(), shown[rank].output.end(),
                         [](const auto& value) { return value.has_value(); });
  }
  EXPECT_GT(got, 0u);
  EXPECT_GE(sent, 4u * (kRanks - 1));
}

TEST(CollectiveLoopShow, AllReduce_OneRank_ItsOwnComesOut) {
  FakeExchange exchange;
  const Pattern pattern(3, 1, Rank(0), Tolerance{});
  const auto shown = CollectiveLoop(&exchange, Rank(0), 1, &pattern, Loop(12, 1, 1)).Show();
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->output, (std::vector<absl::optional<float>>{0, 1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Operations, OperationTest, ::testing::ValuesIn(OperationNames()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param, {{"-", "_"}});
                         });

}  // namespace
}  // namespace gradwire
