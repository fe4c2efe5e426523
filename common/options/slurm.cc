#include "common/options/slurm.h"

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gradwire {

absl::StatusOr<std::string> FirstSlurmHost(absl::string_view nodes) {
  const size_t end = nodes.find_first_of("[,");
  const std::string prefix(nodes.substr(0, end));
  if (end == absl::string_view::npos || nodes[end] == ',') {
    if (prefix.empty()) return absl::InvalidArgumentError("the node list is empty");
    return prefix;
  }
  const size_t close = nodes.find(']', end);
  if (close == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("no closing bracket in '", nodes, "'"));
  }
  const absl::string_view inside = nodes.substr(end + 1, close - end - 1);
  const std::string number(inside.substr(0, inside.find_first_of(",-")));
  // What follows may be a suffix, or a second bracket ("rack[1-2]node[3-4]").
  const absl::string_view rest = nodes.substr(close + 1);
  if (rest.empty() || rest[0] == ',') return absl::StrCat(prefix, number);
  absl::StatusOr<std::string> suffix = FirstSlurmHost(rest);
  if (!suffix.ok()) return suffix;
  return absl::StrCat(prefix, number, *suffix);
}

absl::StatusOr<int> SlurmTasksOnNode(absl::string_view tasks_per_node, int node) {
  int nodes = 0;  // in the items so far
  for (absl::string_view item : absl::StrSplit(tasks_per_node, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits("(x", 1));
    absl::string_view times = parts.second;
    const bool repeated = absl::ConsumeSuffix(&times, ")");
    int tasks = 0;
    int count = 1;
    if (!absl::SimpleAtoi(parts.first, &tasks) || repeated != (item != parts.first) ||
        (repeated && !absl::SimpleAtoi(times, &count))) {
      return absl::InvalidArgumentError(
          absl::StrCat("got '", tasks_per_node, "', expected a list like 2(x3),1"));
    }
    nodes += count;
    if (node < nodes) return tasks;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", tasks_per_node, "' has ", nodes, " nodes, none is number ", node));
}

}  // namespace gradwire
