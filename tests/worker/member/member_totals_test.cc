// A worker counts what all its exchanges have moved, also when the run has lost several others.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/run/coordinator.h"
#include "worker/run/from_options.h"

namespace gradwire {
namespace {

constexpr int kStartingWorkers = 4;
constexpr size_t kTotalsElements = 1000;
constexpr absl::Duration kTotalsPatience = absl::Seconds(30);

struct TotalsCase {
  const char* name;
  const char* backend;
  const char* wire;
  const char* compress;
};

struct CountingWorker {
  std::unique_ptr<RunMember> member;
  std::vector<Rank> ranks;
  std::vector<float> mean = std::vector<float>(kTotalsElements);
};

absl::Span<uint8_t> AsBytes(std::vector<float>& floats) {
  return {reinterpret_cast<uint8_t*>(floats.data()), floats.size() * sizeof(float)};
}

void AddTotals(TransferTotals& sum, const TransferTotals& more) {
  sum.bytes_sent += more.bytes_sent;
  sum.bytes_received += more.bytes_received;
  sum.overflow_steps += more.overflow_steps;
  for (const auto& [link, bytes] : more.sent_on) sum.sent_on[link] += bytes;
  sum.compressed += more.compressed;
}

void ExpectSameTotals(const TransferTotals& got, const TransferTotals& expected) {
  EXPECT_EQ(got.bytes_sent, expected.bytes_sent);
  EXPECT_EQ(got.bytes_received, expected.bytes_received);
  EXPECT_EQ(got.overflow_steps, expected.overflow_steps);
  EXPECT_EQ(got.sent_on, expected.sent_on);
  EXPECT_EQ(got.compressed.whole_bytes, expected.compressed.whole_bytes);
  EXPECT_EQ(got.compressed.coded_bytes, expected.compressed.coded_bytes);
  EXPECT_DOUBLE_EQ(got.compressed.gradient_square, expected.compressed.gradient_square);
  EXPECT_DOUBLE_EQ(got.compressed.residual_square, expected.compressed.residual_square);
}

// A rank each on four workers, which go one by one.
class MemberTotalsTest : public ::testing::TestWithParam<TotalsCase> {
 protected:
  MemberTotalsTest() {
    CoordinatorOptions options;
    options.listen = "127.0.0.1:0";
    options.metrics = "off";
    options.world_size = kStartingWorkers;
    coordinator_ = Coordinator::Start(options).value();
    for (int rank = 0; rank < kStartingWorkers; ++rank) {
      workers_.push_back(std::make_unique<CountingWorker>());
    }
    OnEach([this](CountingWorker& worker, int rank) { return Join(worker, rank); });
  }
  ~MemberTotalsTest() override {
    while (!workers_.empty()) workers_.pop_back();
  }

  // Calls `act` for all workers at the same time.
  void OnEach(const std::function<absl::Status(CountingWorker&, int)>& act) {
    std::vector<std::future<absl::Status>> ended;
    for (size_t i = 0; i < workers_.size(); ++i) {
      ended.push_back(std::async(std::launch::async,
                                 [&, i] { return act(*workers_[i], static_cast<int>(i)); }));
    }
    for (auto& worker : ended) EXPECT_EQ(worker.get(), absl::OkStatus());
  }

  absl::Status Join(CountingWorker& worker, int rank) {
    WorkerOptions options;
    options.coordinator = coordinator_->address();
    options.backend = GetParam().backend;
    options.wire = GetParam().wire;
    options.compress = GetParam().compress;
    options.listen = "127.0.0.1:0";
    options.model = "lenet";
    auto created = RunMember::Create(MemberOptionsOf(options, nullptr).value());
    if (!created.ok()) return created.status();
    worker.member = *std::move(created);
    v1::Hello hello;
    hello.add_ranks(static_cast<uint32_t>(rank));
    const absl::StatusOr<View> view = worker.member->Join(hello);
    if (!view.ok()) return view.status();
    worker.ranks = view->OwnRanks();
    const auto layout =
        worker.member->Declare(options.model, {{"weight", {kTotalsElements}, "float32", false}},
                               {{kTotalsElements * sizeof(float), v1::DTYPE_FLOAT32}});
    return layout.ok() ? worker.member->Connect(*view) : layout.status();
  }

  absl::Status Average(CountingWorker& worker) {
    Exchange& exchange = worker.member->exchange();
    const BucketKey key{LayoutId(0), Step(0), Bucket(0)};
    std::promise<absl::Status> done;
    exchange.Expect(key, AsBytes(worker.mean), SteadyNow() + kTotalsPatience,
                    [&](const absl::Status& status) { done.set_value(status); });
    for (const Rank rank : worker.ranks) exchange.Contribute(key, rank, AsBytes(terms_));
    return done.get_future().get();
  }
  // What was sent is counted when it has left, which may be after it has arrived.
  bool IsAllCounted() const {
    uint64_t sent = 0, received = 0;
    for (const auto& worker : workers_) {
      const TransferTotals totals = worker->member->exchange().totals();
      sent += totals.bytes_sent;
      received += totals.bytes_received;
    }
    return sent == received;
  }
  // Gives what the first worker's exchange has moved since it was made.
  TransferTotals AverageOnAll() {
    OnEach([this](CountingWorker& worker, int) { return Average(worker); });
    const absl::Time deadline = SteadyNow() + kTotalsPatience;
    while (!IsAllCounted() && SteadyNow() < deadline) std::this_thread::yield();
    EXPECT_TRUE(IsAllCounted());
    return workers_.front()->member->exchange().totals();
  }

  static absl::Status GoOn(CountingWorker& worker) {
    const absl::Time deadline = SteadyNow() + kTotalsPatience;
    NextView next;
    while (next.kind == NextView::kEnd && SteadyNow() < deadline) {
      next = worker.member->AwaitNextView(absl::AbortedError("a worker is gone"), Step(0));
    }
    if (next.kind == NextView::kEnd) return absl::DeadlineExceededError("no further view came");
    worker.ranks = next.view.OwnRanks();
    return worker.member->Connect(next.view);
  }
  void LoseTheLast() {
    workers_.pop_back();
    OnEach([](CountingWorker& worker, int) { return GoOn(worker); });
  }

  std::vector<float> terms_ = std::vector<float>(kTotalsElements, 1e6F);  // more than fp16 has
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<CountingWorker>> workers_;
};

TEST_P(MemberTotalsTest, Totals_TwoLosses_AreThoseOfAllExchanges) {
  const RunMember& first = *workers_.front()->member;
  TransferTotals expected = AverageOnAll();
  ExpectSameTotals(first.totals(), expected);
  for (int losses = 0; losses < 2; ++losses) {
    LoseTheLast();
    ExpectSameTotals(first.totals(), expected);
    AddTotals(expected, AverageOnAll());
    ExpectSameTotals(first.totals(), expected);
  }
}

TEST_P(MemberTotalsTest, Totals_EachExchange_CountsWhatThisWayHas) {
  const TransferTotals totals = AverageOnAll();
  const TotalsCase& way = GetParam();
  EXPECT_GT(totals.bytes_sent, 0u);
  EXPECT_GT(totals.bytes_received, 0u);
  EXPECT_EQ(totals.overflow_steps, std::string(way.wire) == "fp16" ? 1u : 0u);
  EXPECT_EQ(totals.sent_on.empty(), std::string(way.backend) != "ring");
  EXPECT_EQ(totals.compressed.coded_bytes > 0, std::string(way.compress) == "int8");
  EXPECT_EQ(totals.compressed.gradient_square > 0, std::string(way.compress) == "int8");
}

INSTANTIATE_TEST_SUITE_P(Ways, MemberTotalsTest,
                         ::testing::Values(TotalsCase{"ring", "ring", "fp16", "none"},
                                           TotalsCase{"int8", "sharded", "fp32", "int8"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gradwire
