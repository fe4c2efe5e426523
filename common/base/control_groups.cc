#include "common/base/control_groups.h"

#include <fstream>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace gradwire {
namespace {

// Adds `group` and its ancestors, up to the root.
void AddGroups(const std::string& hierarchy, std::string group, std::vector<ControlGroup>* groups) {
  for (;;) {
    groups->push_back({hierarchy, group});
    if (group.size() <= 1) return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

std::vector<ControlGroup> GroupsOf(const std::string& own_groups, const std::string& controller,
                                   const std::string& mounted) {
  std::vector<ControlGroup> groups;
  for (absl::string_view line : absl::StrSplit(own_groups, '\n')) {
    // Either "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1).
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() < 3 || !absl::StartsWith(parts[2], "/")) continue;
    if (parts[1].empty()) {
      AddGroups(mounted, parts[2], &groups);
      AddGroups(mounted + "/unified", parts[2], &groups);
    } else if (absl::c_linear_search(absl::StrSplit(parts[1], ','), controller)) {
      AddGroups(absl::StrCat(mounted, "/", parts[1]), parts[2], &groups);
      AddGroups(absl::StrCat(mounted, "/", controller), parts[2], &groups);
    }
  }
  return groups;
}

std::string OwnGroups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gradwire
