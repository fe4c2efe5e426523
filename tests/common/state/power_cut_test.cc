#include "tests/support/power_cut.h"

#include <gmock/gmock.h>

#include <functional>

#include "common/state/checkpoints.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_state.h"

namespace gradwire {
namespace {

using testing::DiskOperation;
using testing::PublishSmall;
using testing::RecordingDisk;
using testing::ReplaceSmall;
using testing::TempDir;
using testing::Unsynced;

// What was done to a run directory, and after which operation a checkpoint was promised.
struct Recorded {
  std::vector<DiskOperation> operations;
  std::vector<std::pair<size_t, int64_t>> promises;  // operations, step
  std::string root;
};

// Publishes checkpoints and keeps two of them, as a run does.
Recorded RecordRun() {
  const TempDir dir;
  RecordingDisk disk;
  Recorded recorded;
  recorded.root = dir.path();
  for (const int64_t step : {10, 20, 30}) {
    EXPECT_TRUE(PublishSmall(dir.path(), step, &disk).ok());
    recorded.promises.emplace_back(disk.operations().size(), step);
    EXPECT_TRUE(KeepNewest(dir.path(), step, 2, &disk).ok());
  }
  recorded.operations = disk.operations();
  return recorded;
}

// Publishes step 20 anew: until that, only the earlier step counts.
Recorded RecordReplacement() {
  const TempDir dir;
  RecordingDisk disk;
  Recorded recorded;
  recorded.root = dir.path();
  for (const int64_t step : {10, 20}) EXPECT_TRUE(PublishSmall(dir.path(), step, &disk).ok());
  recorded.promises.emplace_back(disk.operations().size(), 10);
  EXPECT_TRUE(ReplaceSmall(dir.path(), 20, 21, &disk).ok());
  recorded.promises.emplace_back(disk.operations().size(), 20);
  recorded.operations = disk.operations();
  return recorded;
}

// Returns what is wrong with a run directory after a power cut before operation `count`; "" if all
// is well.
std::string WrongAfter(const Recorded& recorded, size_t count, const std::string& run_dir) {
  int64_t promised = -1;
  for (const auto& [operations, step] : recorded.promises) {
    if (operations <= count) promised = step;
  }
  auto states = ScanRunDir(run_dir);
  if (!states.ok()) return std::string(states.status().message());
  VerifyAll(&*states);
  if (states->empty()) return promised < 0 ? "" : "no checkpoint is left";
  const CheckpointState& newest = states->front();
  if (!newest.status.ok()) return std::string(newest.status.message());
  return newest.folder.step < promised ? "the promised checkpoint is not the newest" : "";
}

// Cuts the power before each operation, in many ways. Returns the first thing that is wrong.
std::string FindWrong(const Recorded& recorded) {
  constexpr int kDrawn = 4;
  std::mt19937 random(1);
  for (size_t count = 0; count <= recorded.operations.size(); ++count) {
    std::vector<Unsynced> ways(kDrawn, Unsynced::kDrawn);
    ways.push_back(Unsynced::kLost);
    ways.push_back(Unsynced::kDone);
    for (const Unsynced unsynced : ways) {
      const TempDir left;
      WriteAfterCut(recorded.operations, count, recorded.root, unsynced, &random, left.path());
      const std::string wrong = WrongAfter(recorded, count, left.path());
      if (!wrong.empty()) return "after " + std::to_string(count) + " operations: " + wrong;
    }
  }
  return "";
}

Recorded Without(Recorded recorded, const std::function<bool(const DiskOperation&)>& is_left_out) {
  std::vector<DiskOperation> kept;
  for (size_t i = 0; i < recorded.operations.size(); ++i) {
    if (!is_left_out(recorded.operations[i])) {
      kept.push_back(recorded.operations[i]);
      continue;
    }
    for (auto& [operations, step] : recorded.promises) {
      if (operations > kept.size()) --operations;
    }
  }
  recorded.operations = std::move(kept);
  return recorded;
}

TEST(PowerCut, BeforeEachOperation_NewestIsWholeAndThePromisedOneIsThere) {
  const Recorded recorded = RecordRun();
  EXPECT_GT(recorded.operations.size(), 100u);
  EXPECT_EQ(FindWrong(recorded), "");
}

TEST(PowerCut, BeforeEachOperationOfAReplacement_NewestIsWhole) {
  EXPECT_EQ(FindWrong(RecordReplacement()), "");
}

// Each of these faults in the order of the operations is found.
TEST(PowerCut, WithoutSyncOfFiles_IsFound) {
  EXPECT_NE(FindWrong(Without(RecordRun(),
                              [](const DiskOperation& operation) {
                                return operation.kind == DiskOperation::Kind::kSync;
                              })),
            "");
}

TEST(PowerCut, WithoutSyncOfTheCheckpointsFolder_IsFound) {
  EXPECT_NE(FindWrong(Without(RecordRun(),
                              [](const DiskOperation& operation) {
                                return operation.kind == DiskOperation::Kind::kSyncFolder &&
                                       operation.path.find("/step-") != std::string::npos;
                              })),
            "");
}

TEST(PowerCut, WithoutSyncOfTheRunDirectory_IsFound) {
  const Recorded whole = RecordRun();
  EXPECT_NE(FindWrong(Without(whole,
                              [&whole](const DiskOperation& operation) {
                                return operation.kind == DiskOperation::Kind::kSyncFolder &&
                                       operation.path == whole.root;
                              })),
            "");
}

}  // namespace
}  // namespace gradwire
