#include "tests/support/power_cut.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "tests/support/temp_dir.h"

namespace gradwire::testing {
namespace {

using Kind = DiskOperation::Kind;

constexpr size_t kSectorBytes = 512;

// A file or a folder, whatever its name.
struct Node {
  bool is_folder = false;
  std::string bytes;                                   // of a file
  std::map<std::string, std::shared_ptr<Node>> names;  // of a folder
};
using NodePtr = std::shared_ptr<Node>;

std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// Two file systems: the one that programs see, and the one that is left after the cut. Both have
// the same number for each node.
class Replay {
 public:
  Replay(const std::string& root, Unsynced unsynced, std::mt19937* random)
      : unsynced_(unsynced), random_(random) {
    seen_[root] = 0;
    nodes_.push_back(std::make_shared<Node>());
    nodes_[0]->is_folder = true;
  }

  // `is_synced`: the operation is on the disk whatever happens.
  void Apply(const DiskOperation& operation, bool is_synced) {
    switch (operation.kind) {
      case Kind::kCreate:
      case Kind::kMakeFolder:
        return Make(operation.path, operation.kind == Kind::kMakeFolder, is_synced);
      case Kind::kWrite:
        return Write(operation, is_synced);
      case Kind::kTruncate:
        if (is_synced || Survives()) {
          nodes_[seen_.at(operation.path)]->bytes.resize(static_cast<size_t>(operation.offset));
        }
        return;
      case Kind::kRename:
        return Rename(operation.path, operation.to, is_synced);
      case Kind::kRemove:
        return Remove(operation.path, is_synced);
      case Kind::kSync:
      case Kind::kSyncFolder:
        return;
    }
  }

  // Returns the number of the file or folder that an operation changes.
  size_t Changed(const DiskOperation& operation) const {
    const bool is_file = operation.kind == Kind::kWrite || operation.kind == Kind::kTruncate;
    return seen_.at(is_file ? operation.path : Split(operation.path).first);
  }
  size_t NumberOf(const std::string& path) const { return seen_.at(path); }

  void WriteTo(const std::string& target) const { WriteNode(*nodes_[0], target); }

 private:
  bool Survives() {
    return unsynced_ == Unsynced::kDone || (unsynced_ == Unsynced::kDrawn && (*random_)() % 2 == 0);
  }

  void Make(const std::string& path, bool is_folder, bool is_synced) {
    const auto [folder, name] = Split(path);
    seen_[path] = nodes_.size();
    nodes_.push_back(std::make_shared<Node>());
    nodes_.back()->is_folder = is_folder;
    if (is_synced || Survives()) nodes_[seen_.at(folder)]->names[name] = nodes_.back();
  }

  void Write(const DiskOperation& operation, bool is_synced) {
    std::string& bytes = nodes_[seen_.at(operation.path)]->bytes;
    const auto offset = static_cast<size_t>(operation.offset);
    for (size_t at = 0; at < operation.bytes.size(); at += kSectorBytes) {
      if (!is_synced && !Survives()) continue;
      const std::string sector = operation.bytes.substr(at, kSectorBytes);
      bytes.resize(std::max(bytes.size(), offset + at + sector.size()));
      bytes.replace(offset + at, sector.size(), sector);
    }
  }

  void Rename(const std::string& from, const std::string& to, bool is_synced) {
    const size_t moved = seen_.at(from);
    const size_t old_folder = seen_.at(Split(from).first);
    const size_t new_folder = seen_.at(Split(to).first);
    std::map<std::string, size_t> seen;
    for (const auto& [path, number] : seen_) {
      const bool is_moved = path == from || path.rfind(from + "/", 0) == 0;
      seen[is_moved ? to + path.substr(from.size()) : path] = number;
    }
    seen_ = std::move(seen);
    if (!is_synced && !Survives()) return;
    auto& old_names = nodes_[old_folder]->names;
    const auto old = old_names.find(Split(from).second);
    if (old != old_names.end() && old->second == nodes_[moved]) old_names.erase(old);
    nodes_[new_folder]->names[Split(to).second] = nodes_[moved];
  }

  void Remove(const std::string& path, bool is_synced) {
    const auto [folder, name] = Split(path);
    if (is_synced || Survives()) nodes_[seen_.at(folder)]->names.erase(name);
    seen_.erase(path);
  }

  static void WriteNode(const Node& folder, const std::string& path) {
    std::filesystem::create_directories(path);
    for (const auto& [name, node] : folder.names) {
      const std::string below = path + "/" + name;
      node->is_folder ? WriteNode(*node, below) : WriteFile(below, node->bytes);
    }
  }

  const Unsynced unsynced_;
  std::mt19937* const random_;
  std::map<std::string, size_t> seen_;  // number of the node of each path that programs see
  std::vector<NodePtr> nodes_;          // as they are left after the cut
};

// Returns whether each of the first `count` operations is on the disk: its file or folder was
// synced after it.
std::vector<bool> FindSynced(const std::vector<DiskOperation>& operations, size_t count,
                             const std::string& root) {
  Replay replay(root, Unsynced::kDone, nullptr);
  std::vector<size_t> changed(count);
  std::vector<bool> is_synced(count, false);
  for (size_t i = 0; i < count; ++i) {
    const bool is_sync =
        operations[i].kind == Kind::kSync || operations[i].kind == Kind::kSyncFolder;
    changed[i] = is_sync ? ~size_t{0} : replay.Changed(operations[i]);
    const size_t synced = is_sync ? replay.NumberOf(operations[i].path) : ~size_t{0} - 1;
    for (size_t k = 0; k < i; ++k) {
      if (changed[k] == synced) is_synced[k] = true;
    }
    replay.Apply(operations[i], false);
  }
  return is_synced;
}

}  // namespace

void WriteAfterCut(const std::vector<DiskOperation>& operations, size_t count,
                   const std::string& root, Unsynced unsynced, std::mt19937* random,
                   const std::string& target) {
  const std::vector<bool> is_synced = FindSynced(operations, count, root);
  Replay replay(root, unsynced, random);
  for (size_t i = 0; i < count; ++i) replay.Apply(operations[i], is_synced[i]);
  replay.WriteTo(target);
}

}  // namespace gradwire::testing
