#include "worker/run/hello.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

// Why a worker with these options cannot go on without a lost one; empty if it can.
std::string WhyNotRecover(const WorkerOptions& options) {
  if (!options.inference.empty()) return "with --inference nobody takes over a part";
  if (TraitsOfSync(options.sync).periodic) {
    return absl::StrCat("with sync ", options.sync, " each rank has a model of its own");
  }
  if (TraitsOfSync(options.sync).served) {
    return absl::StrCat("with sync ", options.sync, " what was pushed cannot be taken back");
  }
  if (options.compress != WorkerOptions().compress) {
    return absl::StrCat("what a rank has put aside is lost with it (--compress ", options.compress,
                        ")");
  }
  if (TraitsOfBackend(options.backend).recovers) return "";
  return absl::StrCat("with back end ", options.backend, " a worker carries one rank");
}

}  // namespace

v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples) {
  v1::Hello hello;
  hello.set_cannot_recover(WhyNotRecover(options));
  for (const Rank rank : options.ranks) hello.add_ranks(static_cast<uint32_t>(rank.value()));
  hello.set_world_size(static_cast<uint32_t>(options.world_size));
  hello.set_threads(static_cast<uint32_t>(options.threads));
  auto& settings = *hello.mutable_settings();
  settings["training samples"] = absl::StrCat(training_samples);
  for (const auto& [name, value] : AgreedValues(options)) {
    const bool stated = value.agreement == Agreement::kSetting ||
                        (value.agreement == Agreement::kSettingUnlessDefault && !value.is_default);
    if (stated) settings[name] = value.text;
  }
  return hello;
}

}  // namespace gradwire
