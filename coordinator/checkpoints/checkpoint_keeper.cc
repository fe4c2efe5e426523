#include "coordinator/checkpoints/checkpoint_keeper.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/state/checkpoints.h"
#include "coordinator/checkpoints/state_donors.h"
#include "coordinator/checkpoints/stored_state.h"

namespace gradwire {
namespace {

// The workers make their last copies at about the same time, each when it is through.
constexpr absl::Duration kNewerWithin = absl::Seconds(2);

// Returns the number before the first '/', of a key that begins with a rank; 0 if there is none.
int RankOf(const std::string& key) {
  int rank = 0;
  return absl::SimpleAtoi(key.substr(0, key.find('/')), &rank) ? rank : 0;
}

ManifestOptimizer FromProto(const v1::OptimizerConfig& config) {
  ManifestOptimizer optimizer;
  optimizer.name = config.name();
  for (const v1::ParameterGroup& group : config.groups()) {
    optimizer.groups.push_back({{group.options().begin(), group.options().end()},
                                {group.parameters().begin(), group.parameters().end()}});
  }
  return optimizer;
}

}  // namespace

absl::StatusOr<StatePlan> PlanOf(const SaveState& save) {
  std::map<std::string, StateSection> sections;
  std::map<std::string, std::set<std::string>> keys;
  for (const StateDonor& donor : save.donors) {
    for (const v1::StateSection& section : donor.sections) {
      const absl::StatusOr<StateSection> read = SectionOf(section);
      if (!read.ok()) return read.status();
      StateSection& all = sections[read->name];
      all.name = read->name;
      for (const auto& tensor : read->tensors) {
        if (keys[read->name].insert(tensor.key).second) all.tensors.push_back(tensor);
      }
    }
  }
  std::vector<StateSection> ordered;
  for (const char* name : {kModelSection, kOptimizerSection, kRanksSection, kOuterSection,
                           kCodecSection, kResidualsSection, kProgramSection}) {
    const auto found = sections.find(name);
    if (found != sections.end()) ordered.push_back(std::move(found->second));
  }
  for (StateSection& section : ordered) {
    if (section.name != kRanksSection && section.name != kResidualsSection &&
        section.name != kProgramSection) {
      continue;
    }
    std::stable_sort(section.tensors.begin(), section.tensors.end(),
                     [](const auto& a, const auto& b) { return RankOf(a.key) < RankOf(b.key); });
  }
  return StatePlan::Make(std::move(ordered));
}

CheckpointKeeper::CheckpointKeeper(KeeperOptions options,
                                   std::function<void(const KeptCheckpoint&)> on_kept)
    : options_(std::move(options)), on_kept_(std::move(on_kept)), thread_([this] { Run(); }) {}

CheckpointKeeper::~CheckpointKeeper() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void CheckpointKeeper::Order(SaveState save) {
  std::optional<SaveState> replaced;
  {
    MutexLock lock(&mutex_);
    replaced.swap(order_);
    order_ = std::move(save);
    changed_.NotifyAll();
  }
  if (!replaced) return;
  KeptCheckpoint none;
  none.step = replaced->step;
  none.generation = replaced->generation;
  none.status = absl::CancelledError("a newer one is written instead");
  none.replaced = true;
  on_kept_(none);
}

bool CheckpointKeeper::IsStopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

void CheckpointKeeper::Run() {
  while (true) {
    std::optional<SaveState> save;
    {
      MutexLock lock(&mutex_);
      while (!order_ && !stopping_) changed_.Wait(&mutex_);
      if (!order_) return;
      save.swap(order_);
    }
    KeptCheckpoint kept = Keep(*save);
    if (absl::IsFailedPrecondition(kept.status)) kept.replaced = AwaitNewer(kept.step);
    on_kept_(kept);
  }
}

bool CheckpointKeeper::AwaitNewer(Step step) {
  const absl::Time deadline = SteadyNow() + kNewerWithin;
  MutexLock lock(&mutex_);
  while (!order_ && !stopping_ && !changed_.WaitWithDeadline(&mutex_, deadline)) {
  }
  return order_ && order_->step > step;
}

KeptCheckpoint CheckpointKeeper::Keep(const SaveState& save) {
  const absl::Time begun = SteadyNow();
  KeptCheckpoint kept;
  kept.step = save.step;
  kept.generation = save.generation;
  absl::StatusOr<StatePlan> plan = PlanOf(save);
  kept.status = plan.status();
  if (plan.ok()) {
    kept.bytes = plan->bytes();
    kept.status = Write(save, *plan);
  }
  if (absl::IsAlreadyExists(kept.status)) {
    kept.status =
        HasOwn(save.step) ? absl::OkStatus() : Write(save, *std::move(plan), IfPublished::kReplace);
  }
  const bool recorded =
      kept.status.ok() && (!options_.on_published || options_.on_published(kept.step).ok());
  if (recorded) {
    kept.deleted = KeepNewest(options_.run_dir, static_cast<int64_t>(save.step.value()),
                              options_.keep, options_.disk);
  }
  kept.took = SteadyNow() - begun;
  return kept;
}

// One of an earlier start may be damaged, or of a training that --resume STEP gave up. An earlier
// checkpoint of this training is still there until this one is published.
bool CheckpointKeeper::HasOwn(Step step) const {
  std::vector<std::string> skipped;
  const auto published =
      OpenCheckpoint(options_.run_dir, static_cast<int64_t>(step.value()), &skipped);
  return published.ok() && (*published)->manifest().epoch == options_.epoch.value();
}

absl::Status CheckpointKeeper::Write(const SaveState& save, StatePlan plan,
                                     IfPublished if_published) {
  Manifest manifest = ManifestOf(save);
  manifest.optimizer = FromProto(save.optimizer);
  auto writer = CheckpointWriter::Open(options_.run_dir, static_cast<int64_t>(save.step.value()),
                                       std::move(plan), options_.disk, if_published);
  if (!writer.ok()) return writer.status();
  StateDonors donors(save, options_.run_id, options_.security);
  std::string bytes;
  const StatePlan& written = (*writer)->plan();
  for (int part = 0; part < static_cast<int>(written.parts().size()); ++part) {
    if (IsStopping()) return absl::CancelledError("the coordinator stops");
    bytes.resize(static_cast<size_t>(written.parts()[static_cast<size_t>(part)].bytes));
    auto* const to = reinterpret_cast<uint8_t*>(&bytes[0]);
    absl::Status status = donors.Fetch(written, part, {to, bytes.size()});
    if (status.ok()) status = (*writer)->Write(part, bytes);
    if (!status.ok()) return status;
  }
  if (options_.ledger_position) manifest.ledger = options_.ledger_position();
  return (*writer)->Publish(std::move(manifest)).status();
}

Manifest CheckpointKeeper::ManifestOf(const SaveState& save) const {
  Manifest manifest;
  manifest.version = GRADWIRE_VERSION;
  manifest.run_id = ToHex(options_.run_id);
  manifest.epoch = options_.epoch.value();
  manifest.world_size = options_.world_size;
  manifest.threads = save.threads;
  manifest.total_steps = static_cast<int64_t>(save.total_steps);
  manifest.steps_per_epoch = static_cast<int64_t>(save.steps_per_epoch);
  manifest.finished = save.step.value() == save.total_steps;
  manifest.time = absl::Now();
  manifest.settings = save.settings;
  manifest.environment = save.environment;
  return manifest;
}

}  // namespace gradwire
