#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/ledger/ledger.h"
#include "tests/coordinator/ledger/ledger_records.h"
#include "tests/support/power_cut.h"
#include "tests/support/recording_disk.h"
#include "tests/support/temp_dir.h"

namespace gradwire {
namespace {

using ::testing::IsEmpty;
using testing::Unsynced;

// Two coordinators, and for each number of operations on the disk the number of records that were
// durable by then.
class LedgerPowerCut : public ::testing::Test {
 protected:
  void RunCoordinator(uint64_t epoch, uint64_t first) {
    auto ledger = Ledger::Open(folder_.path(), &disk_);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    Write(ledger->get(), {testing::Start(), testing::Epoch(epoch), testing::View(epoch, 1, first)});
    for (uint64_t step = first; step < first + 60; step += 20) {
      std::vector<Record> group;  // of several sectors
      for (uint64_t i = 0; i < 20; ++i) group.emplace_back(testing::Sealed(step + i));
      Write(ledger->get(), std::move(group));
    }
  }

  void Write(Ledger* ledger, std::vector<Record> records) {
    ASSERT_TRUE(ledger->RecordDurably(std::move(records)).ok());
    durable_.resize(disk_.operations().size(), durable_.empty() ? 0 : durable_.back());
    durable_.push_back(ledger->position().number);
  }

  void Check(size_t count, Unsynced unsynced) {
    const testing::TempDir left;
    testing::WriteAfterCut(disk_.operations(), count, folder_.path(), unsynced, &random_,
                           left.path());
    LedgerReplay replay;
    const auto end =
        ReadLedger(left.path(), [&](const LedgerEntry& entry) { return replay.Add(entry); });
    const uint64_t durable = durable_[std::min(count, durable_.size() - 1)];
    if (durable == 0 && absl::IsNotFound(end.status())) return;
    ASSERT_TRUE(end.ok()) << "after " << count << " operations: " << end.status();
    EXPECT_THAT(replay.findings(), IsEmpty()) << "after " << count << " operations";
    EXPECT_GE(end->position.number, durable) << "after " << count << " operations";
  }

  const testing::TempDir folder_;
  testing::RecordingDisk disk_;
  std::vector<uint64_t> durable_;  // records, by number of operations
  std::mt19937 random_{1};
};

TEST_F(LedgerPowerCut, BeforeAnyOperation_OpensAndHasAllDurableRecords) {
  RunCoordinator(1, 0);
  RunCoordinator(2, 60);
  ASSERT_GT(disk_.operations().size(), 20u);
  for (size_t count = 0; count <= disk_.operations().size(); ++count) {
    Check(count, Unsynced::kLost);
    Check(count, Unsynced::kDone);
    for (int i = 0; i < 4; ++i) Check(count, Unsynced::kDrawn);
  }
}

}  // namespace
}  // namespace gradwire
