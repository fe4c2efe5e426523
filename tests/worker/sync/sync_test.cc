#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/worker/ddp/fake_exchange.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using testing::FakeExchange;
using Contribution = FakeExchange::Contribution;

// Two parameters in a bucket each, 0 and 1, and a buffer, bucket 2; ranks 0 and 1.
class SyncTest : public ::testing::Test {
 protected:
  SyncTest() {
    ReducerOptions options;
    options.bucket_cap_bytes = 0;
    reducer_ = Reducer::Create({torch::ones({2}, torch::requires_grad()),
                                torch::ones({2}, torch::requires_grad())},
                               {torch::ones({1})}, options)
                   .value();
    reducer_->Attach(&exchange_, LayoutId(0), {Rank(0), Rank(1)});
    reducer_->BeginStep(Step(0), absl::Hours(1));
  }
  ~SyncTest() override { reducer_->Abandon(absl::CancelledError("over")); }
  void Make(const std::string& name) { sync_ = MakeSynchronizer(name, reducer_.get()).value(); }

  FakeExchange exchange_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Synchronizer> sync_;
};

TEST_F(SyncTest, Ddp_ForwardDone_BuffersLeaveBeforeBackward) {
  Make("ddp");
  sync_->OnForwardDone(Rank(0));
  EXPECT_THAT(exchange_.buckets(), ElementsAre(2));
}

TEST_F(SyncTest, Ddp_BucketReady_LeavesBeforeBackwardIsDone) {
  Make("ddp");
  sync_->OnForwardDone(Rank(0));
  sync_->OnBucketReady(0, Rank(0));
  EXPECT_THAT(exchange_.contributions(), ElementsAre(Contribution{2, 0}, Contribution{0, 0}));
}

TEST_F(SyncTest, Ddp_BackwardDone_BucketWithoutGradientLeavesNow) {
  Make("ddp");
  sync_->OnForwardDone(Rank(0));
  sync_->OnBucketReady(0, Rank(0));
  sync_->OnBackwardDone(Rank(0));
  EXPECT_THAT(exchange_.contributions(),
              ElementsAre(Contribution{2, 0}, Contribution{0, 0}, Contribution{1, 0}));
}

TEST_F(SyncTest, AllReduce_FirstRankDone_NothingLeavesYet) {
  Make("all-reduce");
  sync_->OnForwardDone(Rank(0));
  sync_->OnBucketReady(0, Rank(0));
  sync_->OnBackwardDone(Rank(0));
  EXPECT_THAT(exchange_.buckets(), ElementsAre());
}

TEST_F(SyncTest, AllReduce_LastRankDone_AllLeave) {
  Make("all-reduce");
  sync_->OnBackwardDone(Rank(0));
  sync_->OnBackwardDone(Rank(1));
  EXPECT_THAT(exchange_.contributions(),
              ElementsAre(Contribution{0, 0}, Contribution{0, 1}, Contribution{1, 0},
                          Contribution{1, 1}, Contribution{2, 0}));
}

TEST_F(SyncTest, PerLayer_BackwardDone_OneBucketAtATime) {
  Make("per-layer");
  sync_->OnBackwardDone(Rank(0));
  sync_->OnBackwardDone(Rank(1));
  EXPECT_THAT(exchange_.contributions(), ElementsAre());
  exchange_.on_contribute = [this](const BucketKey& key) {
    if (exchange_.contributions().back().rank == 1) exchange_.End(key.bucket.value());
  };
  EXPECT_EQ(sync_->NextBucket().value(), 0u);
  EXPECT_THAT(exchange_.contributions(), ElementsAre(Contribution{0, 0}, Contribution{0, 1}));
  EXPECT_EQ(sync_->NextBucket().value(), 1u);
  EXPECT_THAT(exchange_.buckets(), ElementsAre(0, 1));
}

// Notes the rates that it is told.
class RatedExchange : public FakeExchange {
 public:
  void SetRate(double rate) override { rates.push_back(rate); }
  std::vector<double> rates;
};

// A parameter in bucket 0 and a buffer in bucket 1; ranks 1 and 2.
class ServedSyncTest : public ::testing::Test {
 protected:
  ServedSyncTest() {
    ReducerOptions options;
    options.updater = Updater::kServer;
    reducer_ =
        Reducer::Create({torch::ones({2}, torch::requires_grad())}, {torch::ones({1})}, options)
            .value();
    SyncOptions of_sync;
    of_sync.learning_rate = [](Step step) { return 1.0 / static_cast<double>(step.value() + 2); };
    sync_ = MakeSynchronizer("parameter-server", reducer_.get(), std::move(of_sync)).value();
    sync_->Attach(&exchange_, LayoutId(0), {Rank(1), Rank(2)});
  }
  ~ServedSyncTest() override { reducer_->Abandon(absl::CancelledError("over")); }

  RatedExchange exchange_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<Synchronizer> sync_;
};

TEST_F(ServedSyncTest, OnForwardDone_SeveralRanks_RateIsThatOfTheStep) {
  std::set<uint64_t> steps;
  for (uint64_t step = 0; step < 3; ++step) {
    reducer_->BeginStep(Step(step), absl::Hours(1));
    sync_->OnForwardDone(Rank(1));
    sync_->OnForwardDone(Rank(2));
    exchange_.End(1);
    steps.insert(exchange_.expected().back().key.step.value());
  }
  EXPECT_THAT(exchange_.rates, ElementsAre(1.0 / 2, 1.0 / 3, 1.0 / 4));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));  // step 0 of the layout sends the model
}

TEST_F(ServedSyncTest, OnForwardDone_EachRank_ContributesItsBuffersFirst) {
  reducer_->BeginStep(Step(0), absl::Hours(1));
  for (const Rank rank : {Rank(1), Rank(2)}) {
    sync_->OnForwardDone(rank);
    sync_->OnBackwardDone(rank);
  }
  EXPECT_THAT(exchange_.contributions(), ElementsAre(Contribution{1, 1}, Contribution{0, 1},
                                                     Contribution{1, 2}, Contribution{0, 2}));
}

TEST_F(SyncTest, MakeSynchronizer_EveryRow_NullExactlyIfItAveragesNothing) {
  for (const NamedChoice& row : SyncChoices()) {
    Make(TraitsOfSync(row.name).periodic ? row.name + ":2" : row.name);
    EXPECT_EQ(sync_ != nullptr, TraitsOfSync(row.name).averages) << row.name;
  }
}

TEST_F(SyncTest, MakeSynchronizer_UnknownName_NotFoundListsThem) {
  EXPECT_EQ(MakeSynchronizer("ddp2", reducer_.get()).status(),
            absl::NotFoundError("sync 'ddp2' does not exist; expected one of: none data-parallel "
                                "gather-scatter all-reduce per-layer ddp local-sgd diloco "
                                "parameter-server"));
}

TEST_F(SyncTest, MakeSynchronizer_NoInterval_InvalidArgument) {
  EXPECT_EQ(MakeSynchronizer("diloco", reducer_.get()).status(),
            absl::InvalidArgumentError("got 'diloco', expected diloco:H, where H is the number of "
                                       "steps between two exchanges, 1 or more"));
}

}  // namespace
}  // namespace gradwire
