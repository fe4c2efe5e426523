// power-cut LOG ROOT: cuts the power before each operation of a run that disk_recorder.cc recorded,
// in several ways. Prints the number of operations, checkpoints and cuts. Exits with 1 if the
// newest published checkpoint is then damaged, or older than one that was promised to be durable.

#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/state/checkpoints.h"
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

// Returns, for each number of operations, the newest step that must survive a cut after them: its
// folder got its name, and the run directory was synced after that.
std::vector<int64_t> PromisedSteps(const std::vector<DiskOperation>& operations,
                                   const std::string& root) {
  std::vector<int64_t> promised = {-1};
  int64_t renamed = -1;
  for (const DiskOperation& operation : operations) {
    const bool is_named =
        operation.kind == Kind::kRename && absl::StartsWith(operation.to, root + "/");
    const auto step =
        is_named ? ParseCheckpointName(operation.to.substr(root.size() + 1)) : absl::nullopt;
    if (step.has_value()) renamed = *step;
    const bool is_durable = operation.kind == Kind::kSyncFolder && operation.path == root;
    promised.push_back(is_durable ? renamed : promised.back());
  }
  return promised;
}

std::string WrongIn(const std::string& run_dir, int64_t promised) {
  const auto states = ScanRunDir(run_dir, Look::kBytes);
  if (!states.ok()) return std::string(states.status().message());
  if (states->empty()) return promised < 0 ? "" : "no checkpoint is left";
  if (!states->front().status.ok()) return std::string(states->front().status.message());
  if (states->front().folder.step >= promised) return "";
  return absl::StrCat("the newest is of step ", states->front().folder.step, ", expected ",
                      promised);
}

int Run(const std::string& log, const std::string& root) {
  const std::vector<DiskOperation> operations = ReadLog(log, root);
  const std::vector<int64_t> promised = PromisedSteps(operations, root);
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
  std::cout << operations.size() << " operations, last checkpoint " << promised.back() << ", "
            << cuts << " cuts" << std::endl;
  return 0;
}

}  // namespace
}  // namespace gradwire::testing

int main(int argc, char** argv) {
  if (argc == 3) return gradwire::testing::Run(argv[1], argv[2]);
  std::cerr << "power-cut: got " << argc - 1 << " arguments, expected LOG ROOT" << std::endl;
  return 2;
}
