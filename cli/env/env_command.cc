#include "cli/env/env_command.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/host.h"
#include "common/base/memory_limits.h"
#include "common/base/status_util.h"
#include "common/session/local_address.h"
#include "worker/options/choices.h"
#include "worker/options/rank_list.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

constexpr char kEnvProgram[] = "gradwire env";
constexpr char kJsonHelp[] =
    "\ngradwire env takes a worker's options. It shows the worker's rank, world size and "
    "addresses,\n"
    "where each comes from, what it may get of shared memory, an id that is equal for processes\n"
    "that share memory, and the BLAS library; with --json, as one JSON object.\n";

EnvValue OptionOr(const Parsed<WorkerOptions>& parsed, const std::string& name, bool known,
                  const std::string& value, const std::string& otherwise) {
  return {name, known ? value : otherwise, known, parsed.sources.at(name).name};
}

// A worker has no such option because it does not need the value; other programs of the job may.
EnvValue LocalRank(const Parsed<WorkerOptions>& parsed, const LaunchEnvironment& launcher) {
  const auto told = launcher.values.find("local-rank");
  if (told != launcher.values.end()) {
    return {"local-rank", told->second.text, true, told->second.variable};
  }
  const bool alone = parsed.options.local_world_size == 1;
  return {"local-rank", alone ? "0" : "not known", alone,
          alone ? parsed.sources.at("local-world-size").name : "no launcher"};
}

EnvValue LocalAddress(const WorkerOptions& options, const Parsed<WorkerOptions>& parsed) {
  if (!options.advertise.empty()) {
    return {"local-address", options.advertise, true, parsed.sources.at("advertise").name};
  }
  const absl::StatusOr<std::string> local = LocalAddressTowards(options.coordinator);
  return {"local-address", local.ok() ? *local : std::string(local.status().message()), local.ok(),
          "connection to the coordinator"};
}

EnvValue MemoryValue(const Parsed<WorkerOptions>& parsed,
                     const absl::StatusOr<MemoryLimits>& limits) {
  const std::string& source = parsed.sources.at("shared-memory").name;
  if (!SharesMemory(parsed.options.shared_memory)) return {"shared-memory", "off", true, source};
  if (!limits.ok()) {
    return {"shared-memory", absl::StrCat("off: ", limits.status().message()), true, "this host"};
  }
  return {
      "shared-memory",
      absl::StrCat("file ", MemoryText(limits->file), ", addresses ", MemoryText(limits->address),
                   ", group ", MemoryText(limits->group), ", host ", MemoryText(limits->host)),
      true, "what this process may still get"};
}

// With it a user sees which ranks share memory, before there is a run.
EnvValue MemoryIdValue(const Parsed<WorkerOptions>& parsed, const std::string& memory_id) {
  const bool shares = SharesMemory(parsed.options.shared_memory) && !memory_id.empty();
  return {"memory-id", shares ? memory_id : "none", true,
          "processes that print the same share memory"};
}

EnvValue BlasValue(const absl::StatusOr<Blas>& blas) {
  if (!blas.ok()) return {"blas", std::string(blas.status().message()), false, "loader"};
  return {"blas", blas->name, true, blas->path};
}

}  // namespace

std::vector<EnvValue> EnvValues(const Parsed<WorkerOptions>& parsed,
                                const LaunchEnvironment& launcher,
                                const absl::StatusOr<MemoryLimits>& memory,
                                const std::string& memory_id, const absl::StatusOr<Blas>& blas) {
  const WorkerOptions& options = parsed.options;
  return {OptionOr(parsed, "rank", !options.ranks.empty(), ToText(options.ranks),
                   "assigned by the coordinator"),
          OptionOr(parsed, "world-size", options.world_size > 0, absl::StrCat(options.world_size),
                   "the coordinator's"),
          LocalRank(parsed, launcher),
          OptionOr(parsed, "local-world-size", true, absl::StrCat(options.local_world_size), ""),
          OptionOr(parsed, "coordinator", true, options.coordinator, ""),
          LocalAddress(options, parsed),
          MemoryValue(parsed, memory),
          MemoryIdValue(parsed, memory_id),
          BlasValue(blas)};
}

std::string EnvText(const std::vector<EnvValue>& values) {
  std::string text;
  for (const EnvValue& value : values) {
    absl::StrAppendFormat(&text, "%-16s %-28s (%s)\n", value.name, value.value, value.source);
  }
  return text;
}

std::string EnvJson(const std::vector<EnvValue>& values) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const EnvValue& value : values) {
    nlohmann::ordered_json& entry = json[value.name];
    int64_t number = 0;
    const bool numeric = absl::SimpleAtoi(value.value, &number);
    if (!value.known) {
      entry["value"] = nullptr;
    } else if (numeric) {
      entry["value"] = number;
    } else {
      entry["value"] = value.value;
    }
    entry["source"] = value.source;
    if (!value.known) entry["note"] = value.value;
  }
  return json.dump(2) + "\n";
}

int EnvCommand(const std::vector<std::string>& args, const Environment& environment) {
  std::vector<std::string> worker_args = args;
  const auto json = std::remove(worker_args.begin(), worker_args.end(), "--json");
  const bool as_json = json != worker_args.end();
  worker_args.erase(json, worker_args.end());
  auto parsed = ParseWorkerOptions(worker_args, environment, kEnvProgram);
  if (parsed.ok() && !parsed->print.empty()) parsed->print += kJsonHelp;
  if (const absl::optional<int> exit_code = EarlyExit(kEnvProgram, parsed)) return *exit_code;
  const absl::StatusOr<Blas> blas = FindBlas();
  if (blas.ok() && !blas->warning.empty()) PrintWarnings(kEnvProgram, {blas->warning});
  std::string why_not;
  absl::StatusOr<MemoryLimits> memory = OwnMemoryLimits();
  const std::string memory_id = MemoryId(&why_not);
  if (memory_id.empty()) memory = absl::FailedPreconditionError(why_not);
  const std::vector<EnvValue> values =
      EnvValues(*parsed, DetectLaunchEnvironment(environment), memory, memory_id, blas);
  std::cout << (as_json ? EnvJson(values) : EnvText(values));
  return ExitAfterPrinting(kEnvProgram, kExitDone);
}

}  // namespace gradwire
