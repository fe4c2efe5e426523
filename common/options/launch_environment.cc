#include "common/options/launch_environment.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/address.h"

namespace gradwire {
namespace {

void Take(const Environment& environment, const std::string& variable, const std::string& option,
          LaunchEnvironment* found) {
  const std::string text = Value(environment, variable);
  if (!text.empty()) found->values.insert({option, {text, variable}});
}

std::string AtCoordinatorPort(const std::string& host) {
  return ToString(HostPort{host, kCoordinatorPort});
}

void TakeMasterAddress(const Environment& environment, LaunchEnvironment* found) {
  const std::string host = Value(environment, "MASTER_ADDR");
  if (!host.empty()) found->values["coordinator"] = {AtCoordinatorPort(host), "MASTER_ADDR"};
}

void TakeSlurmHost(const Environment& environment, LaunchEnvironment* found) {
  for (const char* variable : {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const std::string nodes = Value(environment, variable);
    if (nodes.empty() || found->values.count("coordinator") > 0) continue;
    const absl::StatusOr<std::string> host = FirstSlurmHost(nodes);
    // A list that cannot be read is passed on as it is, so that the parser
    // names the variable in its message.
    found->values["coordinator"] = {host.ok() ? AtCoordinatorPort(*host) : nodes, variable};
  }
}

bool Has(const Environment& environment, const char* variable) {
  return !Value(environment, variable).empty();
}

void TakeTorchrun(const Environment& environment, LaunchEnvironment* found) {
  found->launcher = "torchrun";
  Take(environment, "RANK", "rank", found);
  Take(environment, "WORLD_SIZE", "world-size", found);
  Take(environment, "LOCAL_WORLD_SIZE", "local-world-size", found);
}

void TakeOpenMpi(const Environment& environment, LaunchEnvironment* found) {
  found->launcher = "OpenMPI";
  Take(environment, "OMPI_COMM_WORLD_RANK", "rank", found);
  Take(environment, "OMPI_COMM_WORLD_SIZE", "world-size", found);
  Take(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", "local-world-size", found);
}

void TakeSlurm(const Environment& environment, LaunchEnvironment* found) {
  found->launcher = "Slurm";
  Take(environment, "SLURM_PROCID", "rank", found);
  Take(environment, "SLURM_NTASKS", "world-size", found);
  Take(environment, "SLURM_NTASKS_PER_NODE", "local-world-size", found);
}

}  // namespace

LaunchEnvironment DetectLaunchEnvironment(const Environment& environment) {
  LaunchEnvironment found;
  if (Has(environment, "RANK") && Has(environment, "WORLD_SIZE")) {
    TakeTorchrun(environment, &found);
  } else if (Has(environment, "OMPI_COMM_WORLD_RANK")) {
    TakeOpenMpi(environment, &found);
  } else if (Has(environment, "SLURM_PROCID")) {
    TakeSlurm(environment, &found);
  } else if (Has(environment, "JOB_COMPLETION_INDEX")) {
    found.launcher = "Kubernetes";
    Take(environment, "JOB_COMPLETION_INDEX", "rank", &found);
  }
  if (found.launcher.empty()) return found;
  TakeMasterAddress(environment, &found);
  if (found.launcher == "Slurm") TakeSlurmHost(environment, &found);
  return found;
}

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

}  // namespace gradwire
