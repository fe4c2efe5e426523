#include "coordinator/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "tests/coordinator/ledger/faulty_disk.h"
#include "tests/coordinator/ledger/ledger_records.h"
#include "tests/support/recording_disk.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::gradwire::testing::End;
using ::gradwire::testing::Epoch;
using ::gradwire::testing::FaultyDisk;
using ::gradwire::testing::Sealed;
using ::gradwire::testing::Start;
using ::gradwire::testing::View;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LedgerTest : public ::testing::Test {
 protected:
  void Open() {
    ledger_.reset();
    auto ledger = Ledger::Open(run_dir_, &disk_);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    LedgerHooks hooks;
    hooks.on_not_durable = [this](const absl::Status& why) { not_durable_.push_back(why); };
    ledger_->Listen(std::move(hooks));
  }
  absl::Status Begin(uint64_t epoch = 1, uint64_t first = 0) {
    return ledger_->RecordDurably({Start(), Epoch(epoch), View(epoch, 1, first)});
  }
  // What a reader finds.
  LedgerReplay Replay() const {
    LedgerReplay replay;
    const auto end =
        ReadLedger(run_dir_, [&](const LedgerEntry& entry) { return replay.Add(entry); });
    EXPECT_TRUE(end.ok()) << end.status();
    EXPECT_TRUE(end.ok() && !end->torn.has_value());
    return replay;
  }
  std::string PathOf(int segment) const { return run_dir_ + "/ledger/" + SegmentName(segment); }
  int64_t SizeOf(int segment) const {
    return static_cast<int64_t>(std::filesystem::file_size(PathOf(segment)));
  }
  bool HasReserve() const { return std::filesystem::exists(run_dir_ + "/ledger/reserve"); }

  const testing::TempDir folder_;
  const std::string& run_dir_ = folder_.path();
  FaultyDisk disk_;
  std::vector<absl::Status> not_durable_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LedgerTest, Records_OfARun_AreReadBack) {
  Open();
  EXPECT_EQ(std::filesystem::file_size(run_dir_ + "/ledger/reserve"), uint64_t{1} << 20);
  ASSERT_TRUE(Begin().ok());
  for (uint64_t step = 0; step < 100; ++step) ledger_->Record(Sealed(step));
  ASSERT_TRUE(ledger_->RecordDurably({End()}).ok());
  EXPECT_EQ(ledger_->position().number, 104);
  const LedgerReplay replay = Replay();
  EXPECT_THAT(replay.findings(), IsEmpty());
  EXPECT_EQ(replay.steps().size(), 100);
  EXPECT_TRUE(replay.runs()[0].end.has_value());
}

// A power cut removes a new file whose folder was not synced.
TEST_F(LedgerTest, RecordDurably_NewSegment_ItsFolderIsSynced) {
  Open();
  const int before = disk_.ledger_syncs;
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(disk_.ledger_syncs, before + 1);
}

TEST_F(LedgerTest, RecordDurably_FolderOfANewSegmentCannotBeSynced_IsRefused) {
  Open();
  disk_.failing_ledger_syncs = 1;
  EXPECT_TRUE(absl::IsInternal(Begin()));
  EXPECT_TRUE(absl::IsInternal(Begin()));  // nothing is written after a failed sync
}

TEST_F(LedgerTest, RecordDurably_Returned_IsInTheFile) {
  Open();
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(Replay().runs()[0].views.size(), 1);
  EXPECT_GT(disk_.syncs, 0);
}

TEST_F(LedgerTest, Record_ManySteps_AreSyncedInGroups) {
  Open();
  ASSERT_TRUE(Begin().ok());
  for (uint64_t step = 0; step < 1000; ++step) ledger_->Record(Sealed(step));
  ledger_.reset();
  EXPECT_EQ(Replay().steps().size(), 1000);
  EXPECT_LT(disk_.syncs, 200);
}

TEST_F(LedgerTest, Record_NothingElse_IsWrittenSoon) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ledger_->Record(Sealed(0));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (ledger_->position().number < 4 && absl::Now() < deadline)
    absl::SleepFor(Ledger::kGroup / 10);
  EXPECT_EQ(Replay().steps().size(), 1);
}

TEST_F(LedgerTest, Record_StepsThatFollowEachOtherSoon_DoNotPutOffTheWrite) {
  Open();
  ASSERT_TRUE(Begin().ok());
  uint64_t step = 0;
  while (ledger_->position().number < 4 && step < 2000) {
    ledger_->Record(Sealed(step++));
    absl::SleepFor(Ledger::kGroup / 50);
  }
  EXPECT_LT(step, 2000u);
}

TEST_F(LedgerTest, NoRecord_LeavesNoSegment) {
  Open();
  ledger_.reset();
  EXPECT_FALSE(std::filesystem::exists(PathOf(1)));
}

TEST_F(LedgerTest, Open_Again_GoesOnWithTheChainInANewSegment) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ledger_->Record(Sealed(0));
  Open();
  EXPECT_EQ(ledger_->before().epoch(), 1);
  EXPECT_EQ(ledger_->before().open_step(), 1);
  ASSERT_TRUE(Begin(2).ok());
  EXPECT_TRUE(std::filesystem::exists(PathOf(2)));
  EXPECT_THAT(Replay().findings(), IsEmpty());
  EXPECT_EQ(Replay().runs().size(), 2);
}

TEST_F(LedgerTest, Open_TornTail_IsCutOff) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ledger_->Record(Sealed(0));
  ledger_.reset();
  const int64_t whole = SizeOf(1);
  std::ofstream(PathOf(1), std::ios::binary | std::ios::app) << std::string(20, '\1');
  Open();
  EXPECT_EQ(SizeOf(1), whole);
  ASSERT_TRUE(Begin(2).ok());
  EXPECT_THAT(Replay().findings(), IsEmpty());
}

// Three records in one write, of which a sector was lost.
TEST_F(LedgerTest, Open_WriteWithoutItsFirstRecord_IsCutOff) {
  Open();
  ASSERT_TRUE(Begin().ok());
  const int64_t whole = SizeOf(1);
  ASSERT_TRUE(ledger_->RecordDurably({Sealed(0), Sealed(1), Sealed(2)}).ok());
  ledger_.reset();
  std::fstream(PathOf(1), std::ios::binary | std::ios::in | std::ios::out).seekp(whole + 26).put(0);
  Open();
  EXPECT_EQ(SizeOf(1), whole);
}

// Its coordinator may have been killed before the last sync. Once a later segment exists, a power
// cut must not tear this one.
TEST_F(LedgerTest, Open_LastSegment_IsSynced) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ledger_.reset();
  testing::RecordingDisk disk;
  ASSERT_TRUE(Ledger::Open(run_dir_, &disk).ok());
  std::vector<std::string> seen;
  for (const testing::DiskOperation& operation : disk.operations()) {
    const bool is_truncation = operation.kind == testing::DiskOperation::Kind::kTruncate;
    const bool is_sync = operation.kind == testing::DiskOperation::Kind::kSyncFolder;
    if (is_truncation) seen.push_back(absl::StrCat(operation.path, " ", operation.offset));
    if (is_sync) seen.push_back(operation.path);
  }
  EXPECT_THAT(seen,
              ElementsAre(run_dir_, absl::StrCat(PathOf(1), " ", SizeOf(1)), run_dir_ + "/ledger"));
}

TEST_F(LedgerTest, Open_Damage_IsRefusedAndChangesNothing) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ASSERT_TRUE(ledger_->RecordDurably({View(1, 2, 0)}).ok());
  ledger_.reset();
  const int64_t whole = SizeOf(1);
  std::fstream(PathOf(1), std::ios::binary | std::ios::in | std::ios::out).seekp(26).put('\x55');
  const absl::Status status = Ledger::Open(run_dir_, &disk_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("00000001.log is damaged at byte 0"));
  EXPECT_EQ(SizeOf(1), whole);
}

TEST_F(LedgerTest, Open_DamageBeforeALaterWrite_IsRefused) {
  Open();
  ASSERT_TRUE(Begin().ok());
  const int64_t first = SizeOf(1);
  for (uint64_t generation : {2, 3}) {
    ASSERT_TRUE(ledger_->RecordDurably({View(1, generation, 0)}).ok());
  }
  ledger_.reset();
  std::fstream(PathOf(1), std::ios::binary | std::ios::in | std::ios::out).seekp(first + 26).put(0);
  EXPECT_THAT(std::string(Ledger::Open(run_dir_, &disk_).status().message()),
              HasSubstr(absl::StrCat("00000001.log is damaged at byte ", first)));
}

TEST_F(LedgerTest, DiskFull_StepsAreDroppedAndCounted_ViewsAndEndStillFit) {
  Open();
  ASSERT_TRUE(Begin().ok());
  ledger_->Record(Sealed(0));
  ASSERT_TRUE(ledger_->RecordDurably({View(1, 2, 1)}).ok());
  disk_.capacity = SizeOf(1) + 30;
  disk_.reserved = 10000;
  for (uint64_t step = 1; step < 5; ++step) ledger_->Record(Sealed(step, 2));
  ASSERT_TRUE(ledger_->RecordDurably({View(1, 3, 5)}).ok());
  EXPECT_FALSE(HasReserve());
  EXPECT_EQ(not_durable_.size(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_->durability()));
  ledger_->Record(Sealed(5, 3));
  ledger_->Record(Sealed(6, 3));
  ASSERT_TRUE(ledger_->RecordDurably({End()}).ok());
  EXPECT_THAT(Replay().findings(),
              ElementsAre(HasSubstr("no record of steps 1 to 4: no space left on device"),
                          HasSubstr("no record of steps 5 to 6: no space left on device")));
  EXPECT_EQ(Replay().runs()[0].views.size(), 3);
  EXPECT_TRUE(Replay().runs()[0].end.has_value());
  EXPECT_EQ(not_durable_.size(), 1);
}

TEST_F(LedgerTest, DiskFull_StepsOnly_LeaveNoPartOfARecord) {
  Open();
  ASSERT_TRUE(Begin().ok());
  disk_.capacity = SizeOf(1) + 30;
  ledger_->Record(Sealed(0));
  ledger_.reset();
  EXPECT_THAT(Replay().findings(), IsEmpty());
  EXPECT_EQ(not_durable_.size(), 1);
}

TEST_F(LedgerTest, DiskFull_EvenWithTheReserve_RefusesTheView) {
  Open();
  ASSERT_TRUE(Begin().ok());
  disk_.capacity = SizeOf(1);
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_->RecordDurably({View(1, 2, 0)})));
  EXPECT_TRUE(absl::IsResourceExhausted(ledger_->RecordDurably({End()})));
  EXPECT_EQ(not_durable_.size(), 1);
  ledger_.reset();
  EXPECT_EQ(Replay().runs()[0].views.size(), 1);
}

TEST_F(LedgerTest, DiskFull_PartThatCannotBeCutOff_EndsAllWriting) {
  Open();
  ASSERT_TRUE(Begin().ok());
  disk_.capacity = SizeOf(1) + 30;
  disk_.reserved = 10000;
  disk_.truncates = false;
  EXPECT_TRUE(absl::IsInternal(ledger_->RecordDurably({View(1, 2, 0)})));
  EXPECT_TRUE(absl::IsInternal(ledger_->RecordDurably({End()})));
}

TEST_F(LedgerTest, FailedSync_IsNeverTriedAgain) {
  Open();
  ASSERT_TRUE(Begin().ok());
  disk_.failing_syncs = 1;
  const int syncs = disk_.syncs;
  EXPECT_THAT(std::string(ledger_->RecordDurably({View(1, 2, 0)}).message()),
              HasSubstr("input/output error"));
  EXPECT_EQ(not_durable_.size(), 1);
  ledger_->Record(Sealed(0, 2));
  EXPECT_TRUE(absl::IsInternal(ledger_->RecordDurably({End()})));
  EXPECT_TRUE(absl::IsInternal(ledger_->durability()));
  ledger_.reset();
  EXPECT_EQ(disk_.syncs, syncs + 1);
  EXPECT_EQ(not_durable_.size(), 1);
}

// A sync that fails for lack of space is a failed sync, too.
TEST_F(LedgerTest, FailedSync_OfASteps_RefusesTheNextView) {
  Open();
  ASSERT_TRUE(Begin().ok());
  disk_.failing_syncs = 1;
  ledger_->Record(Sealed(0));
  EXPECT_FALSE(ledger_->RecordDurably({View(1, 2, 1)}).ok());
}

TEST_F(LedgerTest, OnSync_EachGroup_ToldOnceBeforeItsCallerGoesOn) {
  Open();
  int told = 0;
  LedgerHooks hooks;
  hooks.on_sync = [&told](absl::Duration took, absl::Duration cpu) {
    EXPECT_GE(took, absl::ZeroDuration());
    EXPECT_GE(cpu, absl::ZeroDuration());
    ++told;
  };
  ledger_->Listen(std::move(hooks));
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(ledger_->RecordDurably({View(1, 2, 0), End()}).ok());
  EXPECT_EQ(told, 2);
  ledger_.reset();  // it may call the hooks until then
  EXPECT_EQ(told, 2);
}

double ThreadCpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TEST_F(LedgerTest, OnSync_CpuTime_IsThatSinceTheSyncBefore) {
  Open();
  std::vector<absl::Duration> told;
  LedgerHooks hooks;
  hooks.on_sync = [&told](absl::Duration, absl::Duration cpu) {
    told.push_back(cpu);
    const double end = ThreadCpuSeconds() + 0.05;
    while (told.size() == 1 && ThreadCpuSeconds() < end) continue;
  };
  ledger_->Listen(std::move(hooks));
  ASSERT_TRUE(Begin().ok());
  for (const uint64_t generation : {2, 3}) {
    ASSERT_TRUE(ledger_->RecordDurably({View(1, generation, 0)}).ok());
  }
  ledger_.reset();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_GE(told[1], absl::Milliseconds(50));
  EXPECT_LT(told[2], absl::Milliseconds(50));
}

}  // namespace
}  // namespace gradwire
