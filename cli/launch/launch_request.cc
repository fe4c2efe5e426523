#include "cli/launch/launch_request.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/operations.h"
#include "cli/launch/launch_options.h"
#include "cli/terminal/commands.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"
#include "common/base/status_util.h"
#include "common/telemetry/phases.h"
#include "worker/options/choices.h"
#include "worker/options/traits.h"

namespace gradwire {

namespace {

using Json = nlohmann::ordered_json;

Json Coordinator(const LaunchOptions& options) {
  if (!TraitsOfSync(options.worker.sync).averages) return nullptr;
  std::map<std::string, std::string> texts = options.coordinator_texts;
  if (options.hostfile.empty()) {
    texts["listen"] = options.coordinator.listen;
    texts["metrics"] = options.coordinator.metrics;
  }
  texts.erase("token-file");  // all processes get the token in another way
  if (!options.coordinator.security.plain_http) texts.erase("plain-http");
  texts["world-size"] = absl::StrCat(options.world_size);
  texts["workers"] = absl::StrCat(options.workers);
  return texts;
}

// Names of the choices that have the trait.
template <typename Trait>
Json NamesWith(const std::vector<NamedChoice>& choices, Trait trait) {
  Json names = Json::array();
  for (const std::string& name : NamesOf(choices)) {
    if (trait(name)) names.push_back(name);
  }
  return names;
}

Json Traits() {
  return {{"overlapping",
           NamesWith(SyncChoices(), [](const auto& name) { return TraitsOfSync(name).overlaps; })},
          {"periodic",
           NamesWith(SyncChoices(), [](const auto& name) { return TraitsOfSync(name).periodic; })},
          {"served",
           NamesWith(SyncChoices(), [](const auto& name) { return TraitsOfSync(name).served; })},
          {"halving", NamesWith(BackendChoices(),
                                [](const auto& name) {
                                  const BackendTraits traits = TraitsOfBackend(name);
                                  return traits.halves && traits.links != LinkPattern::kNone;
                                })},
          {"through_coordinator", NamesWith(BackendChoices(), [](const auto& name) {
             return TraitsOfBackend(name).links == LinkPattern::kCoordinator;
           })}};
}

}  // namespace

Json LaunchRequest(const LaunchOptions& options) {
  const bool speed_known = options.link_gbit > 0;
  Json request = {
      {"programs",
       {{"coordinator", absl::StrCat(ProgramDir(), "/gradwire-coordinator")},
        {"worker", absl::StrCat(ProgramDir(), "/gradwire-worker")},
        {"gradwire", absl::StrCat(ProgramDir(), "/gradwire")},
        {"mpi", PrivateFile("libgradwire_mpi.so")}}},
      {"program", options.program},
      {"workers", options.workers},
      {"world_size", options.world_size},
      {"mpirun", TraitsOfBackend(options.worker.backend).under_mpirun},
      {"hostfile", options.hostfile},
      {"per_host", options.per_host},
      {"network", options.network},
      {"coordinator", Coordinator(options)},
      {"lease_seconds", options.coordinator.lease_seconds},
      {"linger_seconds", options.coordinator.linger_seconds},
      {"token_file", options.coordinator.security.token_file},
      {"rank_options", options.rank_options},
      {"log_jsonl", options.worker.log_jsonl},
      {"metrics", options.worker.metrics},
      {"listen", options.worker.listen},
      {"config", options.config},
      {"dataset", options.program.empty() ? options.worker.dataset : ""},
      {"data_dir", options.worker.data_dir},
      {"weights", options.worker.weights},
      {"summary", options.summary},
      {"trace", options.trace},
      {"seconds_per_byte", speed_known ? Json(LeastSeconds({1, 0}, options.link_gbit)) : Json()},
      {"phases", PhaseListJson()}};
  request.update(Traits());
  return request;
}

int LaunchCommand(const std::vector<std::string>& args, const Environment& environment) {
  constexpr char kLaunchProgram[] = "gradwire launch";
  const absl::StatusOr<Parsed<LaunchOptions>> parsed = ParseLaunchOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kLaunchProgram, parsed)) return *exit_code;
  const LaunchOptions& options = parsed->options;
  const absl::Status status =
      BecomeScript("cli/launch/launch.py", LaunchRequest(options),
                   MembersEnvironment(environment, options.config), options.worker_args);
  PrintUsageError(kLaunchProgram, status.message());
  return ExitCode(status);
}

}  // namespace gradwire
