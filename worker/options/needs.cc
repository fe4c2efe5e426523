#include "worker/options/needs.h"

#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"

namespace gradwire {
namespace {

// The option is valid if and only if `is_there()` says that `needed`, "--scale-lr", is given.
Need Needs(std::string needed, std::function<bool()> is_there) {
  return [needed = std::move(needed), is_there = std::move(is_there)](const std::string& source,
                                                                      const Sources& /*sources*/) {
    if (is_there()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": got it without ", needed, ", expected both or neither"));
  };
}

// Returns "sgd", or "sgd or adam": the names for which `has` is true.
template <typename Has>
std::string Either(const std::vector<NamedChoice>& choices, Has has) {
  std::vector<std::string> names;
  for (const std::string& name : NamesOf(choices)) {
    if (has(name)) names.push_back(name);
  }
  return absl::StrJoin(names, " or ");
}

}  // namespace

Need NeedsSync(const WorkerOptions* options, bool SyncTraits::*trait) {
  return Needs(SyncsWith(trait), [=] { return TraitsOfSync(options->sync).*trait; });
}

Need NeedsSchedule(const WorkerOptions* options, bool ScheduleTraits::*trait) {
  const auto has = [trait](const std::string& name) { return TraitsOfSchedule(name).*trait; };
  return Needs("--lr-schedule " + Either(ScheduleChoices(), has),
               [=] { return has(options->lr_schedule); });
}

Need NeedsWarmUpOfCodec(const WorkerOptions* options) {
  return Needs("--compress top-k or powersgd", [options] {
    const absl::StatusOr<Compression> compression = CompressionOf(*options);
    return !compression.ok() || compression->has_warmup();  // another check refuses a wrong one
  });
}

Need NeedsScaledRate(const WorkerOptions* options) {
  return Needs("--scale-lr", [options] { return options->scale_lr; });
}

Need NeedsMomentum(const WorkerOptions* options) {
  return [options](const std::string& source, const Sources& sources) {
    const auto has = [](const std::string& name) { return TraitsOfOptimizer(name).has_momentum; };
    if (has(options->optimizer)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": got it with optimizer ", options->optimizer, " (", sources.at("optimizer").name,
        "), which has no momentum, expected ", Either(OptimizerChoices(), has)));
  };
}

Need NeedsOnDevices(const WorkerOptions* options) {
  return [options](const std::string& source, const Sources& sources) {
    if (TraitsOfSync(options->sync).on_devices) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(source, ": got sync ", options->sync, " (",
                                                   sources.at("sync").name, "), expected ",
                                                   SyncsWith(&SyncTraits::on_devices)));
  };
}

Need NeedsLateUpdate(const WorkerOptions* options) {
  return [options](const std::string& /*source*/, const Sources& sources) {
    if (TraitsOfSync(options->sync).updates_late) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--barrier: got sync ", options->sync, " (", sources.at("sync").name,
                     "), expected a sync that updates late, such as ddp"));
  };
}

Need NeedsConnections(const WorkerOptions* options) {
  return [options](const std::string& source, const Sources& /*sources*/) {
    return CheckConnections(options->backend, options->connections, source);
  };
}

}  // namespace gradwire
