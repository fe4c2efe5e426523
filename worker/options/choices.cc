#include "worker/options/choices.h"

#include "absl/strings/str_cat.h"
#include "common/wire/layout.h"
#include "worker/options/traits.h"

namespace gradwire {

std::vector<NamedChoice> ModelChoices() {
  return {
#define GRADWIRE_MODEL(name, factory, help) {name, help},
#include "worker/options/models.inc"
#undef GRADWIRE_MODEL
  };
}

std::vector<NamedChoice> DatasetChoices() {
  return {
#define GRADWIRE_DATASET(name, loader, help) {name, help},
#include "worker/options/datasets.inc"
#undef GRADWIRE_DATASET
  };
}

std::vector<NamedChoice> SyncChoices() {
  return {
#define GRADWIRE_SYNC(name, factory, traits, help) {name, help},
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC
  };
}

std::vector<NamedChoice> BackendChoices() {
  return {
#define GRADWIRE_BACKEND(name, factory, traits, help) {name, help},
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  };
}

namespace {

constexpr char kNoSharedMemory[] = "off";

}  // namespace

std::vector<std::string> SharedMemoryChoices() { return {"auto", kNoSharedMemory}; }

bool SharesMemory(const std::string& shared_memory) { return shared_memory != kNoSharedMemory; }

std::vector<NamedChoice> BackendChoicesWithAuto() {
  std::vector<NamedChoice> choices = BackendChoices();
  choices.push_back(
      {kAutoBackend,
       "sharded with separate aggregators; else memory on one host; else ring, coordinator for "
       "gather-scatter, or sharded for a codec (exact in fp32)"});
  return choices;
}

std::vector<NamedChoice> OptimizerChoices() {
  return {
#define GRADWIRE_OPTIMIZER(name, factory, momentum, lr, weight_decay, help) {name, help},
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  };
}

std::vector<NamedChoice> ScheduleChoices() {
  return {
#define GRADWIRE_SCHEDULE(name, factor, has_steps, help) {name, help},
#include "worker/options/schedules.inc"
#undef GRADWIRE_SCHEDULE
  };
}

std::vector<NamedChoice> LossChoices() {
  return {
#define GRADWIRE_LOSS(name, function, help) {name, help},
#include "worker/options/losses.inc"
#undef GRADWIRE_LOSS
  };
}

std::string AutoBetweenHosts(bool gathers, bool aggregates) {
  if (gathers) return kAutoOfGathering;
  return aggregates ? kAutoOfAggregators : kAutoOfWorkers;
}

std::string BackendFor(const std::string& backend, int connections, bool gathers) {
  if (backend != kAutoBackend || connections == 1) return backend;
  return AutoBetweenHosts(gathers, /*aggregates=*/true);
}

std::vector<std::string> NamesOf(const std::vector<NamedChoice>& choices) {
  std::vector<std::string> names;
  for (const NamedChoice& choice : choices) names.push_back(choice.name);
  return names;
}

std::string DescribeChoices(absl::string_view title, const std::vector<NamedChoice>& choices) {
  std::string text(title);
  for (const NamedChoice& choice : choices) {
    absl::StrAppend(&text, "\n  ", choice.name, ": ", choice.help);
  }
  return text;
}

absl::StatusOr<Compression> CompressionOf(const WorkerOptions& options) {
  absl::StatusOr<Compression> compression = ParseCompression(options.compress);
  if (!compression.ok()) return compression;
  compression->warmup_steps = options.compress_warmup;
  if (compression->has_density && TraitsOfOptimizer(options.optimizer).has_momentum) {
    compression->momentum = static_cast<float>(options.momentum);
  }
  return compression;
}

absl::StatusOr<v1::DType> WireTypeOf(const WorkerOptions& options) {
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  if (!compression.ok()) return compression.status();
  if (compression->is_on()) return compression->dtype;
  return ParseWire(options.wire);
}

}  // namespace gradwire
