#include "coordinator/membership/resuming.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

// Settings that change what a run reports, or how its bytes travel, but no bit of its result.
constexpr const char* kFree[] = {"check-replicas", "bucket-cap-mb",  "connections",
                                 "evaluate",       "evaluate-every", "groups"};
constexpr const char* kLength[] = {"epochs", "iterations"};

std::string SettingIn(const Settings& settings, const std::string& name) {
  const auto it = settings.find(name);
  return it == settings.end() ? "its default" : it->second;
}

bool Differs(const Settings& got, const Settings& expected, const std::string& name) {
  return SettingIn(got, name) != SettingIn(expected, name);
}

absl::Status Refuse(const std::string& name, const Settings& got, const Settings& expected,
                    absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("resume: setting '", name, "': got ", SettingIn(got, name), ", expected ",
                   SettingIn(expected, name), ", as in the checkpoint", why));
}

// These back ends compute the same sums with float32 on the wire.
constexpr const char* kFolds[] = {"auto", "coordinator", "memory", "ring", "sharded"};

bool IsCompressed(const Settings& settings) {
  const auto it = settings.find("compress");
  return it != settings.end() && it->second != "none";
}

bool MayDiffer(const std::string& name, const Settings& got, const Settings& expected) {
  if (name == "backend") {
    return SettingIn(expected, "wire") == "fp32" &&
           absl::c_linear_search(kFolds, SettingIn(got, name)) &&
           absl::c_linear_search(kFolds, SettingIn(expected, name));
  }
  // Codecs cut a bucket into units.
  if (name == "bucket-cap-mb" && IsCompressed(expected)) return false;
  return absl::c_linear_search(kFree, name) || absl::c_linear_search(kLength, name);
}

uint64_t NumberIn(const Settings& settings, const std::string& name) {
  uint64_t number = 0;
  const auto it = settings.find(name);
  return it != settings.end() && absl::SimpleAtoi(it->second, &number) ? number : 0;
}

// Returns 0 if it is not known.
uint64_t StepsOf(const Settings& settings, const ResumedRun& run) {
  const uint64_t iterations = NumberIn(settings, "iterations");
  return iterations > 0 ? iterations : NumberIn(settings, "epochs") * run.steps_per_epoch;
}

absl::Status CheckRunLength(const Settings& got, const ResumedRun& run) {
  const uint64_t steps = StepsOf(got, run);
  if (steps == 0 || steps == run.total_steps) return absl::OkStatus();
  const char* const name = Differs(got, run.settings, "iterations") ? "iterations" : "epochs";
  if (steps < run.step.value()) {
    return Refuse(name, got, run.settings,
                  absl::StrCat(" or more: that is ", steps, " steps, and the checkpoint has ",
                               run.step.value()));
  }
  if (SettingIn(run.settings, "lr-schedule") == "cosine") {
    return Refuse(
        name, got, run.settings,
        ", because with --lr-schedule cosine each learning rate depends on the last step");
  }
  const std::string sync = SettingIn(run.settings, "sync");
  if (absl::StartsWith(sync, "local-sgd") || absl::StartsWith(sync, "diloco")) {
    return Refuse(
        name, got, run.settings,
        absl::StrCat(", because with --sync ", sync, " the last step has an exchange of its own"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DifferenceInEnvironment(const v1::Hello& hello, const ResumedRun& run) {
  for (const auto& [name, expected] : run.environment) {
    const auto got = hello.environment().find(name);
    const std::string value = got == hello.environment().end() ? "unknown" : got->second;
    if (value == expected) continue;
    return absl::StrCat("the bits of this run may change: its ", name, " is '", value,
                        "', and that of the checkpoint was '", expected, "'");
  }
  return "";
}

bool HasNoStepLeft(const Settings& settings, const ResumedRun& run) {
  return StepsOf(settings, run) == run.step.value();
}

absl::Status CheckResumed(const v1::Hello& hello, const ResumedRun& run) {
  const Settings got = SettingsOf(hello);
  Settings all = run.settings;
  all.insert(got.begin(), got.end());
  for (const auto& [name, unused] : all) {
    if (Differs(got, run.settings, name) && !MayDiffer(name, got, run.settings)) {
      return Refuse(name, got, run.settings, "");
    }
  }
  if (hello.threads() != 0 && hello.threads() != static_cast<uint32_t>(run.threads)) {
    return absl::InvalidArgumentError(absl::StrCat("resume: setting 'threads': got ",
                                                   hello.threads(), ", expected ", run.threads,
                                                   ", as in the checkpoint"));
  }
  return CheckRunLength(got, run);
}

}  // namespace gradwire
