// power-cut LOG ROOT: cuts the power before each operation of a run that disk_recorder.cc recorded,
// in several ways. Prints the number of operations, runs and cuts. Exits with 1 if the newest
// published checkpoint is then damaged, or older than one that was promised to be durable; or if
// the next coordinator cannot open the ledger, or it is not sound, or lacks a record that must be
// durable (docs/ledger.md) before an operation that was recorded.

#include <spdlog/spdlog.h>

#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "cli/ledger/ledger_report.h"
#include "common/base/disk.h"
#include "common/state/checkpoints.h"
#include "coordinator/ledger/ledger.h"
#include "tests/support/power_cut.h"
#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using Kind = DiskOperation::Kind;

const std::map<std::string, Kind>& Kinds() {
  static const auto* const kinds =
      new std::map<std::string, Kind>{{"create", Kind::kCreate}, {"make-folder", Kind::kMakeFolder},
                                      {"write", Kind::kWrite},   {"truncate", Kind::kTruncate},
                                      {"sync", Kind::kSync},     {"sync-folder", Kind::kSyncFolder},
                                      {"rename", Kind::kRename}, {"remove", Kind::kRemove}};
  return *kinds;
}

std::vector<DiskOperation> ReadLog(const std::string& path, const std::string& root) {
  std::vector<DiskOperation> operations;
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    DiskOperation operation{Kinds().at(fields.at(0)), fields.at(1), fields.at(2), 0,
                            absl::HexStringToBytes(fields.at(4))};
    if (!absl::SimpleAtoi(fields.at(3), &operation.offset)) std::abort();
    // The run directory itself is there from the beginning.
    if (operation.path != root || operation.kind == Kind::kSyncFolder) {
      operations.push_back(std::move(operation));
    }
  }
  return operations;
}

// What must be there after a cut.
struct Promise {
  int64_t checkpoint = -1;  // the newest one whose name is durable
  int64_t recorded = -1;    // the newest one in the ledger, because an older one was deleted
  size_t begun = 0;         // runs whose first view the workers have
  size_t ended = 0;         // runs whose coordinator has ended
};

// Follows the operations of a run directory.
class Promises {
 public:
  explicit Promises(std::string root) : root_(std::move(root)) {}

  void Add(const DiskOperation& operation) {
    const auto renamed = CheckpointOf(operation.to);
    if (operation.kind == Kind::kRename && renamed.has_value()) newest_ = *renamed;
    if (operation.kind == Kind::kRename && CheckpointOf(operation.path).has_value()) {
      promise_.recorded = newest_;
    }
    if (operation.kind == Kind::kSyncFolder && operation.path == root_) {
      promise_.checkpoint = newest_;
    }
    if (operation.kind == Kind::kCreate && absl::EndsWith(operation.path, ".log")) {
      promise_.ended = segments_++;
    }
    // Nothing is copied before the workers train.
    const absl::string_view path = absl::StripSuffix(operation.path, kUnpublished);
    if (operation.kind == Kind::kMakeFolder && CheckpointOf(path).has_value()) {
      promise_.begun = segments_;
    }
  }
  // All processes have ended.
  void AddEnd() { promise_.ended = segments_; }
  const Promise& promise() const { return promise_; }

 private:
  absl::optional<int64_t> CheckpointOf(absl::string_view path) const {
    if (!absl::ConsumePrefix(&path, root_ + "/")) return absl::nullopt;
    return ParseCheckpointName(path);
  }

  const std::string root_;
  Promise promise_;
  int64_t newest_ = -1;  // checkpoint that got its name
  size_t segments_ = 0;
};

// Returns the promises after each number of operations.
std::vector<Promise> PromisesOf(const std::vector<DiskOperation>& operations,
                                const std::string& root) {
  Promises promises(root);
  std::vector<Promise> all = {promises.promise()};
  for (const DiskOperation& operation : operations) {
    promises.Add(operation);
    all.push_back(promises.promise());
  }
  promises.AddEnd();
  all.back() = promises.promise();
  return all;
}

std::string WrongCheckpoint(const std::vector<CheckpointState>& states, int64_t promised) {
  if (states.empty()) return promised < 0 ? "" : "no checkpoint is left";
  if (!states.front().status.ok()) return std::string(states.front().status.message());
  if (states.front().folder.step >= promised) return "";
  return absl::StrCat("the newest is of step ", states.front().folder.step, ", expected ",
                      promised);
}

// Returns what is wrong with the records of the runs that have begun or ended.
std::string WrongRuns(const std::vector<LedgerRun>& runs, const Promise& promised) {
  if (runs.size() < promised.begun) {
    return absl::StrCat("the ledger has ", runs.size(), " runs, expected ", promised.begun);
  }
  int64_t recorded = -1;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].views.empty() && i < promised.begun) return "a run has no view";
    if (!runs[i].end.has_value() && i < promised.ended) return "a run has no end";
    if (i > 0 && !runs[i].resumed.has_value() && i < promised.begun) return "no resume is recorded";
    for (const auto& checkpoint : runs[i].checkpoints) {
      recorded = static_cast<int64_t>(checkpoint.step());
    }
  }
  if (recorded >= promised.recorded) return "";
  return absl::StrCat("the last checkpoint in the ledger is ", recorded, ", expected ",
                      promised.recorded);
}

// Opens the ledger as the next coordinator does, which cuts a torn tail off, and returns what is
// wrong with what is left.
std::string WrongLedger(const std::string& run_dir, const std::vector<CheckpointState>& states,
                        const Promise& promised) {
  const auto opened = Ledger::Open(run_dir, &RealDisk());
  if (!opened.ok()) return std::string(opened.status().message());
  const LedgerReplay& replay = (*opened)->before();
  const auto report = ReadReport(run_dir, PlacesOfCheckpoints(run_dir));
  // An empty ledger has no segment.
  if (absl::IsNotFound(report.status()) && replay.runs().empty()) return WrongRuns({}, promised);
  if (!report.ok()) return std::string(report.status().message());
  const LedgerVerdict verdict = Judge(*report);
  if (!verdict.findings.empty()) return verdict.findings.front();
  const auto saved = states.empty() ? 0 : static_cast<uint64_t>(states.front().folder.step);
  if (replay.open_step() < saved) {
    return absl::StrCat("step ", replay.open_step(), " is in the newest checkpoint, of step ",
                        saved, ", but not in the ledger");
  }
  return WrongRuns(report->replay.runs(), promised);
}

std::string WrongIn(const std::string& run_dir, const Promise& promised) {
  auto states = ScanRunDir(run_dir);
  if (!states.ok()) return std::string(states.status().message());
  VerifyAll(&*states);
  const std::string wrong = WrongCheckpoint(*states, promised.checkpoint);
  return wrong.empty() ? WrongLedger(run_dir, *states, promised) : wrong;
}

int Run(const std::string& log, const std::string& root) {
  spdlog::set_level(spdlog::level::err);  // each torn tail is a warning
  const std::vector<DiskOperation> operations = ReadLog(log, root);
  const std::vector<Promise> promised = PromisesOf(operations, root);
  std::mt19937 random(1);
  size_t cuts = 0;
  for (size_t count = 0; count <= operations.size(); ++count) {
    for (const Unsynced unsynced : {Unsynced::kLost, Unsynced::kDone, Unsynced::kDrawn,
                                    Unsynced::kDrawn, Unsynced::kDrawn, Unsynced::kDrawn}) {
      const TempDir left;
      WriteAfterCut(operations, count, root, unsynced, &random, left.path());
      const std::string wrong = WrongIn(left.path(), promised[count]);
      ++cuts;
      if (wrong.empty()) continue;
      std::cerr << "power-cut: after " << count << " operations: " << wrong << std::endl;
      return 1;
    }
  }
  const Promise& last = promised.back();
  std::cout << operations.size() << " operations, last checkpoint " << last.checkpoint << ", "
            << last.begun << " runs, " << cuts << " cuts" << std::endl;
  return 0;
}

}  // namespace
}  // namespace gradwire::testing

int main(int argc, char** argv) {
  if (argc == 3) return gradwire::testing::Run(argv[1], argv[2]);
  std::cerr << "power-cut: got " << argc - 1 << " arguments, expected LOG ROOT" << std::endl;
  return 2;
}
