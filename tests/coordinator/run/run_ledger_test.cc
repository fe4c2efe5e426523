#include "coordinator/run/run_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "tests/coordinator/ledger/faulty_disk.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunLedgerTest : public ::testing::Test {
 protected:
  RunLedgerTest() { status_.mutable_settings()->insert({"lr", "0.1"}); }

  void Open(uint64_t least = 1) {
    ledger_.reset();
    auto ledger = RunLedger::Open(run_dir_, CoordinatorEpoch(least), &disk_);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
  }
  absl::Status OnView(uint64_t generation, uint64_t first_step = 0) {
    FormRun form;
    form.view.run_id.fill(7);
    form.view.epoch = ledger_->epoch();
    form.view.generation = Generation(generation);
    form.view.world_size = 2;
    form.view.threads = 3;
    form.view.first_step = Step(first_step);
    form.view.seals = true;
    return ledger_->OnView(form, status_, "host:29400");
  }
  static v1::SealedRecord StepOf(uint64_t step) {
    v1::SealedRecord record;
    record.set_step(step);
    record.set_generation(1);
    return record;
  }
  std::vector<LedgerRun> Runs() const {
    LedgerReplay replay;
    const auto end = ReadLedger(run_dir_, [&](const LedgerEntry& e) { return replay.Add(e); });
    EXPECT_TRUE(end.ok()) << end.status();
    EXPECT_THAT(replay.findings(), IsEmpty());
    return replay.runs();
  }

  const testing::TempDir folder_;
  const std::string& run_dir_ = folder_.path();
  v1::StatusReply status_;
  testing::FaultyDisk disk_;
  std::unique_ptr<RunLedger> ledger_;
};

TEST_F(RunLedgerTest, OnView_First_RecordsStartEpochAndView) {
  Open();
  EXPECT_EQ(ledger_->epoch(), CoordinatorEpoch(1));
  ASSERT_TRUE(OnView(1).ok());
  ASSERT_THAT(Runs(), SizeIs(1));
  const LedgerRun run = Runs()[0];
  EXPECT_EQ(run.start.run_id(), std::string(16, '\7'));
  EXPECT_EQ(run.start.world_size(), 2);
  EXPECT_EQ(run.start.threads(), 3);
  EXPECT_EQ(run.start.address(), "host:29400");
  EXPECT_EQ(run.start.settings().at("lr"), "0.1");
  EXPECT_EQ(run.epoch, 1);
  EXPECT_EQ(run.views[0].view().generation(), 1);
}

TEST_F(RunLedgerTest, OnView_NothingIsSealed_StartSaysWhy) {
  Open();
  FormRun form;
  form.view.epoch = ledger_->epoch();
  form.view.generation = Generation(1);
  form.view.world_size = 2;
  form.cannot_seal = "gloo has no second view";
  ASSERT_TRUE(ledger_->OnView(form, status_, "host:29400").ok());
  EXPECT_EQ(Runs()[0].start.cannot_recover(), "gloo has no second view");
  EXPECT_EQ(Runs()[0].start.version(), GRADWIRE_VERSION);
}

TEST_F(RunLedgerTest, OnLoss_NextView_HasTheWorkerOnce) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnLoss({{Rank(1)}, Step(0), "killed", "host:1", 4711});
  ASSERT_TRUE(OnView(2).ok());
  ASSERT_TRUE(ledger_->OnRunOver(absl::OkStatus()).ok());
  const LedgerRun run = Runs()[0];
  ASSERT_THAT(run.Lost(), SizeIs(1));
  EXPECT_EQ(run.views[1].lost(0).cause(), "killed");
  EXPECT_THAT(run.views[1].lost(0).ranks(), ElementsAre(1));
}

TEST_F(RunLedgerTest, OnLoss_Twice_EachViewHasItsOwnWithStepAndAddress) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnLoss({{Rank(1)}, Step(0), "killed", "host:1", 4711});
  ASSERT_TRUE(OnView(2).ok());
  ledger_->OnLoss({{Rank(0), Rank(1)}, Step(7), "silent", "host:2", 4712});
  ASSERT_TRUE(ledger_->OnRunOver(absl::AbortedError("all were lost")).ok());
  const std::vector<v1::LostWorker> lost = Runs()[0].Lost();
  ASSERT_THAT(lost, SizeIs(2));
  EXPECT_EQ(lost[0].step(), 0u);
  EXPECT_EQ(lost[0].address(), "host:1");
  EXPECT_EQ(lost[1].step(), 7u);
  EXPECT_EQ(lost[1].address(), "host:2");
  EXPECT_THAT(lost[1].ranks(), ElementsAre(0, 1));
}

TEST_F(RunLedgerTest, OnRunOver_Failure_HasReasonAndLossesWithoutAView) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnLoss({{Rank(1)}, Step(0), "killed", "host:1", 4711});
  ASSERT_TRUE(ledger_->OnRunOver(absl::AbortedError("rank 1 was lost")).ok());
  const LedgerRun run = Runs()[0];
  EXPECT_FALSE(run.end->finished());
  EXPECT_EQ(run.end->reason(), "rank 1 was lost");
  EXPECT_THAT(run.end->lost(), SizeIs(1));
}

TEST_F(RunLedgerTest, OnRunOver_BeforeTheFirstView_RecordsNothing) {
  Open();
  ASSERT_TRUE(ledger_->OnRunOver(absl::AbortedError("no worker came")).ok());
  EXPECT_THAT(Runs(), IsEmpty());
}

TEST_F(RunLedgerTest, Epoch_GrowsWithEachRun_AndIsNotBelowTheLeast) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  Open();
  EXPECT_EQ(ledger_->epoch(), CoordinatorEpoch(2));
  Open(/*least=*/9);
  EXPECT_EQ(ledger_->epoch(), CoordinatorEpoch(9));
}

TEST_F(RunLedgerTest, ResumeFrom_IsRecordedWithTheFirstView) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnSealed(StepOf(0));
  ledger_->OnSealed(StepOf(1));
  Open();
  ledger_->ResumeFrom(Step(1), "step-000000000001");
  ASSERT_TRUE(OnView(1, 1).ok());
  ASSERT_TRUE(OnView(2, 1).ok());
  ASSERT_TRUE(Runs()[1].resumed.has_value());
  EXPECT_EQ(Runs()[1].resumed->folder(), "step-000000000001");
  // Start, Epoch, View and two steps; then Start, Epoch, View, Resumed and View.
  EXPECT_EQ(ledger_->Sync()->number, 10u);
}

TEST_F(RunLedgerTest, EachRecordForPeople_HasItsTime) {
  const double begun = UnixSeconds(absl::Now());
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnSealed(StepOf(0));
  Open();
  ledger_->ResumeFrom(Step(1), "step-000000000001");
  ASSERT_TRUE(OnView(1, 1).ok());
  ASSERT_TRUE(ledger_->OnCheckpoint(Step(1), "step-000000000001").ok());
  ASSERT_TRUE(ledger_->OnRunOver(absl::OkStatus()).ok());
  const LedgerRun run = Runs()[1];
  for (const double time : {run.start.time(), run.views[0].time(), run.resumed->time(),
                            run.checkpoints[0].time(), run.end->time()}) {
    EXPECT_GE(time, begun);
    EXPECT_LE(time, UnixSeconds(absl::Now()));
  }
}

TEST_F(RunLedgerTest, Sync_Returned_StepsAreOnTheDisk) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnSealed(StepOf(0));
  const auto position = ledger_->Sync();
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(position->number, 4);
  EXPECT_EQ(Runs()[0].sealed, 1);
}

TEST_F(RunLedgerTest, OnCheckpoint_IsRecorded_ButNotAfterTheEnd) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  ledger_->OnSealed(StepOf(0));
  ASSERT_TRUE(ledger_->OnCheckpoint(Step(1), "step-000000000001").ok());
  ASSERT_TRUE(ledger_->OnRunOver(absl::OkStatus()).ok());
  ASSERT_TRUE(ledger_->OnCheckpoint(Step(1), "step-000000000001").ok());
  EXPECT_THAT(Runs()[0].checkpoints, SizeIs(1));
}

TEST_F(RunLedgerTest, FailedDisk_IsToldByTheHooksAndRefusesTheNextView) {
  Open();
  ASSERT_TRUE(OnView(1).ok());
  disk_.failing_syncs = 1;
  ledger_->OnSealed(StepOf(0));
  EXPECT_THAT(std::string(OnView(2).message()), HasSubstr("input/output error"));
  EXPECT_FALSE(ledger_->durability().ok());
}

}  // namespace
}  // namespace gradwire
