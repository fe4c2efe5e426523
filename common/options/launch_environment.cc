#include "common/options/launch_environment.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/address.h"

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
  // A suffix or a second bracket may follow ("rack[1-2]node[3-4]").
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

namespace {

struct Launcher {
  std::string name;
  std::vector<std::string> marks;  // all must be set for this launcher
  // Option and variable; if an option has several variables, the first that is set counts.
  std::vector<std::pair<std::string, std::string>> values;
};

const std::vector<Launcher>& Launchers() {
  static const auto* const launchers = new std::vector<Launcher>{
      {"torchrun",
       {"RANK", "WORLD_SIZE"},
       {{"rank", "RANK"},
        {"world-size", "WORLD_SIZE"},
        {"local-rank", "LOCAL_RANK"},
        {"local-world-size", "LOCAL_WORLD_SIZE"}}},
      {"OpenMPI",
       {"OMPI_COMM_WORLD_RANK"},
       {{"rank", "OMPI_COMM_WORLD_RANK"},
        {"world-size", "OMPI_COMM_WORLD_SIZE"},
        {"local-rank", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"local-world-size", "OMPI_COMM_WORLD_LOCAL_SIZE"}}},
      {"Slurm",
       {"SLURM_PROCID"},
       {{"rank", "SLURM_PROCID"},
        {"world-size", "SLURM_STEP_NUM_TASKS"},
        {"world-size", "SLURM_NTASKS"},
        {"local-rank", "SLURM_LOCALID"}}},
      {"PMIx", {"PMIX_RANK"}, {{"rank", "PMIX_RANK"}, {"local-rank", "PMIX_LOCAL_RANK"}}},
      {"Kubeflow",
       {"PET_NODE_RANK", "PET_NNODES"},
       {{"rank", "PET_NODE_RANK"}, {"world-size", "PET_NNODES"}}},
      {"Kubernetes",
       {"JOB_COMPLETION_INDEX"},
       {{"rank", "JOB_COMPLETION_INDEX"}, {"world-size", "WORLD_SIZE"}}}};
  return *launchers;
}

bool Has(const Environment& environment, const std::string& variable) {
  return !Value(environment, variable).empty();
}

bool IsThere(const Launcher& launcher, const Environment& environment) {
  return std::all_of(launcher.marks.begin(), launcher.marks.end(),
                     [&](const std::string& mark) { return Has(environment, mark); });
}

void Take(const Environment& environment, const std::string& variable, const std::string& option,
          LaunchEnvironment* found) {
  const std::string text = Value(environment, variable);
  if (!text.empty()) found->values.insert({option, {text, variable}});
}

// Sets the coordinator's address to `host`, which comes from `variable`.
void TakeHost(const Environment& environment, const std::string& host, const std::string& variable,
              const std::string& port_variable, LaunchEnvironment* found) {
  const std::string text = Value(environment, port_variable);
  const bool taken = Value(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (text.empty() || taken) {
    found->values["coordinator"] = {ToString(HostPort{host, kCoordinatorPort}), variable};
    return;
  }
  const absl::StatusOr<HostPort> address = ParseHostPort(absl::StrCat("[", host, "]:", text));
  found->values["coordinator"] = {address.ok() ? ToString(*address) : absl::StrCat(host, ":", text),
                                  absl::StrCat(variable, " and ", port_variable)};
}

// Returns true if the environment names the coordinator's host.
bool TakeMasterAddress(const Environment& environment, LaunchEnvironment* found) {
  for (const char* prefix : {"", "PET_"}) {
    const std::string variable = absl::StrCat(prefix, "MASTER_ADDR");
    if (!Has(environment, variable)) continue;
    TakeHost(environment, Value(environment, variable), variable,
             absl::StrCat(prefix, "MASTER_PORT"), found);
    return true;
  }
  return false;
}

void TakeSlurmHost(const Environment& environment, LaunchEnvironment* found) {
  for (const char* variable : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::string nodes = Value(environment, variable);
    if (nodes.empty()) continue;
    const absl::StatusOr<std::string> host = FirstSlurmHost(nodes);
    if (host.ok()) return TakeHost(environment, *host, variable, "MASTER_PORT", found);
    found->values["coordinator"] = {nodes, variable};
    return;
  }
}

void TakeSlurmLocalSize(const Environment& environment, LaunchEnvironment* found) {
  constexpr char kTasks[] = "SLURM_STEP_TASKS_PER_NODE";
  const std::string tasks = Value(environment, kTasks);
  int node = 0;
  if (!tasks.empty() && absl::SimpleAtoi(Value(environment, "SLURM_NODEID"), &node)) {
    const absl::StatusOr<int> here = SlurmTasksOnNode(tasks, node);
    found->values["local-world-size"] = {here.ok() ? absl::StrCat(*here) : tasks, kTasks};
  }
  Take(environment, "SLURM_NTASKS_PER_NODE", "local-world-size", found);
}

// If all of OpenMPI's processes run on this host, the coordinator does too.
void TakeOpenMpiHost(const Environment& environment, LaunchEnvironment* found) {
  constexpr char kHere[] = "OMPI_COMM_WORLD_LOCAL_SIZE";
  if (!Has(environment, kHere) ||
      Value(environment, kHere) != Value(environment, "OMPI_COMM_WORLD_SIZE")) {
    return;
  }
  TakeHost(environment, "127.0.0.1", kHere, "MASTER_PORT", found);
}

}  // namespace

LaunchEnvironment DetectLaunchEnvironment(const Environment& environment) {
  LaunchEnvironment found;
  const auto launcher =
      std::find_if(Launchers().begin(), Launchers().end(),
                   [&](const Launcher& candidate) { return IsThere(candidate, environment); });
  if (launcher == Launchers().end()) return found;
  found.launcher = launcher->name;
  for (const auto& [option, variable] : launcher->values) {
    Take(environment, variable, option, &found);
  }
  if (found.launcher == "Slurm") TakeSlurmLocalSize(environment, &found);
  if (TakeMasterAddress(environment, &found)) return found;
  if (found.launcher == "Slurm") TakeSlurmHost(environment, &found);
  if (found.launcher == "OpenMPI") TakeOpenMpiHost(environment, &found);
  return found;
}

}  // namespace gradwire
