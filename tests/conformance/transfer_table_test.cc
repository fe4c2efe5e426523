#include "worker/backends/transfer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace gradwire::transfer_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using ::testing::SizeIs;

const absl::Status kBroken = absl::UnavailableError("rank 1 cannot be reached");
const absl::Status kLate = absl::DeadlineExceededError("rank 2 is missing");

constexpr auto kInstant = std::chrono::milliseconds(50);

BucketKey Key(int step, int bucket, int layout = 0) {
  return {LayoutId(layout), Step(step), Bucket(bucket)};
}

// What happened, in order. Thread-safe.
class Journal {
 public:
  void Note(std::string event) {
    MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<std::string> events() const {
    MutexLock lock(&mutex_);
    return events_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

class TransferTableTest : public ::testing::Test {
 protected:
  struct Added {
    bool under_way;
    std::shared_ptr<Transfer> transfer;
    std::future<absl::Status> done;
  };

  TransferTableTest()
      : table_({[this](const Transfer& late) {
                  journal_.Note("explain " + ToString(late.key));
                  return kLate;
                },
                [this](const absl::Status&) {
                  stopped_on_ = std::this_thread::get_id();
                  journal_.Note("stop");
                },
                [this] { journal_.Note("drain"); }}) {}
  ~TransferTableTest() override { table_.Close(); }

  Added Add(const BucketKey& key, absl::Time deadline = absl::InfiniteFuture()) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    auto transfer = std::make_shared<Transfer>(key, BucketSpec{}, absl::Span<uint8_t>(), deadline,
                                               [this, key, promise](absl::Status status) {
                                                 journal_.Note("done " + ToString(key));
                                                 promise->set_value(std::move(status));
                                               });
    const bool under_way = table_.Add(transfer);
    return {under_way, transfer, promise->get_future()};
  }

  Journal journal_;
  std::thread::id stopped_on_;
  TransferTable table_;
};

TEST_F(TransferTableTest, Complete_Twice_DoneRunsOnceAndWell) {
  table_.Start();
  Added added = Add(Key(0, 0));
  EXPECT_TRUE(added.under_way);
  table_.Complete(Key(0, 0));
  table_.Complete(Key(0, 0));
  EXPECT_TRUE(added.done.get().ok());
  EXPECT_THAT(journal_.events(), ElementsAre("done step 0, bucket 0"));
}

TEST_F(TransferTableTest, Complete_MemoryIsLent_DoneRunsWhenItIsBack) {
  Added added = Add(Key(0, 0));
  std::shared_ptr<const void> token = added.transfer->lender.LendToken();
  auto completing = std::async(std::launch::async, [this] { table_.Complete(Key(0, 0)); });
  EXPECT_EQ(added.done.wait_for(kInstant), std::future_status::timeout);
  token.reset();
  EXPECT_TRUE(added.done.get().ok());
}

TEST_F(TransferTableTest, Complete_ThenAFailure_DoneDoesNotRunAgain) {
  table_.Start();
  Added completed = Add(Key(0, 0));
  Added under_way = Add(Key(0, 1));
  table_.Complete(Key(0, 0));
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(under_way.done.get(), kBroken);
  EXPECT_THAT(journal_.events(),
              ElementsAre("done step 0, bucket 0", "stop", "drain", "done step 0, bucket 1"));
}

TEST_F(TransferTableTest, Deadline_OfOneTransferPasses_ExplainStopDrainAndAllAreDone) {
  table_.Start();
  Added other = Add(Key(0, 0));
  Added late = Add(Key(0, 1), absl::InfinitePast());
  EXPECT_EQ(late.done.get(), kLate);
  EXPECT_EQ(other.done.get(), kLate);
  EXPECT_THAT(journal_.events(), ElementsAre("explain step 0, bucket 1", "stop", "drain",
                                             "done step 0, bucket 0", "done step 0, bucket 1"));
  EXPECT_FALSE(table_.suspect().has_value());
}

TEST(TransferTableHooksTest, Deadline_WhosePartsAreMissingIsKnown_AllAreSuspects) {
  TransferTable table({[](const Transfer&) {
                         return Lateness(kLate, {Incarnation(7), Incarnation(8)});
                       },
                       [](const absl::Status&) {}, [] {}});
  table.Start();
  std::promise<absl::Status> done;
  table.Add(std::make_shared<Transfer>(
      Key(0, 0), BucketSpec{}, absl::Span<uint8_t>(), absl::InfinitePast(),
      [&done](absl::Status status) { done.set_value(std::move(status)); }));
  EXPECT_EQ(done.get_future().get(), kLate);
  table.Close();
  ASSERT_TRUE(table.suspect().has_value());
  EXPECT_EQ(table.suspect()->worker, Incarnation(7));
  EXPECT_THAT(table.suspect()->others, ElementsAre(Incarnation(8)));
  EXPECT_EQ(table.suspect()->failure, kLate);
}

TEST_F(TransferTableTest, Deadline_SeveralPassed_TheFirstOneIsExplained) {
  Add(Key(0, 0), SteadyNow() - absl::Seconds(1));
  Added first = Add(Key(0, 1), SteadyNow() - absl::Seconds(2));
  table_.Start();
  EXPECT_EQ(first.done.get(), kLate);
  EXPECT_EQ(journal_.events().front(), "explain step 0, bucket 1");
}

TEST_F(TransferTableTest, Deadline_EarlierOneIsAddedWhileWaiting_IsNoticed) {
  table_.Start();
  Add(Key(0, 0), SteadyNow() + absl::Hours(1));
  Added late = Add(Key(0, 1), SteadyNow() + absl::Milliseconds(10));
  EXPECT_EQ(late.done.get(), kLate);
}

TEST_F(TransferTableTest, Fail_Twice_TheFirstFailureAndItsSuspectCount) {
  table_.Start();
  Added added = Add(Key(0, 0));
  table_.Fail(kBroken, Incarnation(7));
  table_.Fail(absl::AbortedError("the run is over"), Incarnation(8));
  EXPECT_EQ(added.done.get(), kBroken);
  EXPECT_EQ(table_.failure(), kBroken);
  ASSERT_TRUE(table_.suspect().has_value());
  EXPECT_EQ(table_.suspect()->worker, Incarnation(7));
  EXPECT_EQ(table_.suspect()->failure, kBroken);
  EXPECT_THAT(journal_.events(), ElementsAre("stop", "drain", "done step 0, bucket 0"));
}

TEST_F(TransferTableTest, Fail_FirstOne_StopRunsOnTheCallersThread) {
  table_.Start();
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(stopped_on_, std::this_thread::get_id());
}

// The coordinator compares it with what others tell, who may only have noticed the stop.
TEST(TransferTableHooksTest, Fail_WithASuspect_HasTheTimeBeforeTheStop) {
  absl::Time stopped;
  const absl::Time begin = SteadyNow();
  TransferTable table({nullptr,
                       [&stopped](const absl::Status&) {
                         stopped = SteadyNow();
                         while (SteadyNow() == stopped) {
                         }
                       },
                       [] {}});
  table.Fail(kBroken, Incarnation(7));
  ASSERT_TRUE(table.suspect().has_value());
  EXPECT_GE(table.suspect()->at, begin);
  EXPECT_LE(table.suspect()->at, stopped);
  table.Close();
}

TEST(TransferTableHooksTest, Fail_StopTakesAWhile_DrainRunsAfterIt) {
  Journal journal;
  std::promise<void> release;
  TransferTable table({nullptr,
                       [&](const absl::Status&) {
                         release.get_future().wait();
                         journal.Note("stop");
                       },
                       [&] { journal.Note("drain"); }});
  table.Start();
  auto failing = std::async(std::launch::async, [&] { table.Fail(kBroken, absl::nullopt); });
  EXPECT_EQ(failing.wait_for(kInstant), std::future_status::timeout);
  release.set_value();
  table.Close();
  EXPECT_THAT(journal.events(), ElementsAre("stop", "drain"));
}

TEST_F(TransferTableTest, Fail_BeforeStart_TransfersEndOnceStarted) {
  Added added = Add(Key(0, 0));
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(added.done.wait_for(kInstant), std::future_status::timeout);
  table_.Start();
  EXPECT_EQ(added.done.get(), kBroken);
}

TEST_F(TransferTableTest, Fail_MemoryIsLent_DoneRunsWhenItIsBack) {
  table_.Start();
  Added added = Add(Key(0, 0));
  std::shared_ptr<const void> token = added.transfer->lender.LendToken();
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(added.done.wait_for(kInstant), std::future_status::timeout);
  token.reset();
  EXPECT_EQ(added.done.get(), kBroken);
}

TEST_F(TransferTableTest, Add_AfterAFailure_EndsWithIt) {
  table_.Start();
  Added before = Add(Key(0, 0));
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(before.done.get(), kBroken);
  Added after = Add(Key(0, 1));
  EXPECT_FALSE(after.under_way);
  EXPECT_EQ(after.done.get(), kBroken);
}

TEST_F(TransferTableTest, Find_UnderWayOrNot_TheTransferOrNull) {
  const Added added = Add(Key(0, 1));
  EXPECT_EQ(table_.Find(Key(0, 1)), added.transfer);
  EXPECT_EQ(table_.Find(Key(0, 1, /*layout=*/1)), nullptr);
  table_.Complete(Key(0, 1));
  EXPECT_EQ(table_.Find(Key(0, 1)), nullptr);
}

TEST_F(TransferTableTest, All_SomeAreThrough_TheOthers) {
  for (int bucket : {0, 1, 2}) Add(Key(0, bucket));
  table_.Complete(Key(0, 1));
  ASSERT_THAT(table_.All(), SizeIs(2));
  EXPECT_EQ(table_.All()[0]->key, Key(0, 0));
  EXPECT_EQ(table_.All()[1]->key, Key(0, 2));
}

TEST_F(TransferTableTest, CheckStep_NeitherTheOpenOneNorTheNext_OutOfRange) {
  EXPECT_EQ(table_.CheckStep(LayoutId(0), Step(2)),
            absl::OutOfRangeError("got step 2, expected the open step 0 or the next"));
  Add(Key(3, 0));
  for (const uint64_t step : {2, 5}) {
    EXPECT_EQ(table_.CheckStep(LayoutId(0), Step(step)),
              absl::OutOfRangeError(
                  absl::StrCat("got step ", step, ", expected the open step 3 or the next")));
  }
}

TEST_F(TransferTableTest, CheckStep_TwoLayouts_EachHasAnOpenStepOfItsOwn) {
  Add(Key(3, 0));
  EXPECT_TRUE(table_.CheckStep(LayoutId(0), Step(3)).ok());
  EXPECT_TRUE(table_.CheckStep(LayoutId(0), Step(4)).ok());
  EXPECT_EQ(table_.CheckStep(LayoutId(0), Step(0)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(table_.CheckStep(LayoutId(1), Step(0)).ok());
  EXPECT_EQ(table_.CheckStep(LayoutId(1), Step(3)).code(), absl::StatusCode::kOutOfRange);
}

// What neighbors send before this worker expects the first bucket.
TEST(TransferTableHooksTest, CheckStep_ViewThatBeginsLater_FirstStepIsOpen) {
  TransferTable table({nullptr, [](const absl::Status&) {}, [] {}}, Step(5));
  EXPECT_TRUE(table.CheckStep(LayoutId(0), Step(5)).ok());
  EXPECT_TRUE(table.CheckStep(LayoutId(0), Step(6)).ok());
  for (const uint64_t step : {0, 4, 7}) {
    EXPECT_EQ(table.CheckStep(LayoutId(0), Step(step)),
              absl::OutOfRangeError(
                  absl::StrCat("got step ", step, ", expected the open step 5 or the next")));
  }
  table.Close();
}

TEST_F(TransferTableTest, WaitForLayout_AddedLater_ItsBuckets) {
  auto found =
      std::async(std::launch::async, [this] { return *table_.WaitForLayout(LayoutId(1)); });
  EXPECT_EQ(found.wait_for(kInstant), std::future_status::timeout);
  const BucketSpec bytes{33, v1::DTYPE_BYTES, Rank(2)};
  table_.AddLayout(LayoutId(1), {{8, v1::DTYPE_FLOAT32}, bytes});
  EXPECT_THAT(found.get(), ElementsAre(BucketSpec{8, v1::DTYPE_FLOAT32}, bytes));
  EXPECT_EQ(table_.SpecOf(Key(0, 1, /*layout=*/1)), bytes);
}

TEST_F(TransferTableTest, WaitForLayout_FailsWhileWaiting_Null) {
  auto found = std::async(std::launch::async, [this] { return table_.WaitForLayout(LayoutId(1)); });
  EXPECT_EQ(found.wait_for(kInstant), std::future_status::timeout);
  table_.Fail(kBroken, absl::nullopt);
  EXPECT_EQ(found.get(), nullptr);
}

TEST_F(TransferTableTest, Close_TransfersUnderWay_AllAreCancelledBeforeItReturns) {
  table_.Start();
  Added first = Add(Key(0, 0));
  Added second = Add(Key(0, 1));
  table_.Close();
  for (Added* added : {&first, &second}) {
    ASSERT_EQ(added->done.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_EQ(added->done.get(), absl::CancelledError("the exchange is over"));
  }
  EXPECT_THAT(journal_.events(),
              ElementsAre("stop", "drain", "done step 0, bucket 0", "done step 0, bucket 1"));
}

TEST_F(TransferTableTest, Close_AfterAFailure_TheFailureStays) {
  table_.Start();
  table_.Fail(kBroken, Incarnation(7));
  table_.Close();
  EXPECT_EQ(table_.failure(), kBroken);
  ASSERT_TRUE(table_.suspect().has_value());
  EXPECT_EQ(table_.suspect()->worker, Incarnation(7));
  EXPECT_EQ(table_.suspect()->failure, kBroken);
}

// Else they would suspect this worker, which only told them of another one.
TEST(EndForPeers, SomebodyDoesNotAnswer_PeersHearOfAnEnd) {
  EXPECT_EQ(EndForPeers(absl::UnavailableError("rank 2 does not answer")),
            absl::AbortedError("rank 2 does not answer"));
  EXPECT_EQ(EndForPeers(absl::DeadlineExceededError("rank 2 is missing")),
            absl::DeadlineExceededError("rank 2 is missing"));
}

}  // namespace
}  // namespace gradwire::transfer_table_test
