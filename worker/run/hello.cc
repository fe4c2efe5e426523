#include "worker/run/hello.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/host.h"
#include "worker/options/sync_choice.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

std::string ToText(bool value) { return value ? "true" : "false"; }

// Settings that are left out where they are as usual.
std::map<std::string, std::string> Optional(const WorkerOptions& options) {
  return {{"delay", absl::StrCat(options.delay)},
          {"outer-lr", absl::StrCat(options.outer_lr)},
          {"outer-momentum", absl::StrCat(options.outer_momentum)},
          {"staleness", StalenessText(options.staleness)},
          {"image-size", absl::StrCat(options.image_size)},
          {"hidden", absl::StrCat(options.hidden)},
          {"freeze-features", ToText(options.freeze_features)},
          {"compute-seconds", ToString(options.compute_seconds)},
          {"compress", options.compress},
          {"compress-warmup", absl::StrCat(options.compress_warmup)},
          {"loss", options.loss},
          {"optimizer", options.optimizer},
          {"nesterov", ToText(options.nesterov)},
          {"lr-schedule", options.lr_schedule},
          {"lr-step-epochs", absl::StrCat(options.lr_step_epochs)},
          {"lr-gamma", absl::StrCat(options.lr_gamma)},
          {"warmup-epochs", absl::StrCat(options.warmup_epochs)},
          {"scale-lr", ToText(options.scale_lr)},
          {"base-batch", absl::StrCat(options.base_batch)},
          {"set-epoch", ToText(options.set_epoch)},
          {"on-nonfinite", options.on_nonfinite},
          {"check-replicas", absl::StrCat(options.check_replicas)},
          {"evaluate", ToText(options.evaluate)},
          {"evaluate-every", absl::StrCat(options.evaluate_every)}};
}

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
  if (TraitsOfBackend(options.backend).several_ranks) return "";
  return absl::StrCat("with back end ", options.backend, " a worker carries one rank");
}

}  // namespace

v1::Hello MakeHello(const WorkerOptions& options, int64_t training_samples) {
  v1::Hello hello;
  hello.set_cannot_recover(WhyNotRecover(options));
  for (const Rank rank : options.ranks) hello.add_ranks(static_cast<uint32_t>(rank.value()));
  hello.set_world_size(static_cast<uint32_t>(options.world_size));
  hello.set_threads(static_cast<uint32_t>(options.threads));
  hello.set_cores(static_cast<uint32_t>(UsableCores()));
  hello.set_host(CoresId());
  auto& settings = *hello.mutable_settings();
  settings["sync"] = options.sync;
  settings["backend"] = options.backend;
  settings["wire"] = options.wire;
  if (options.groups > 1) settings["groups"] = absl::StrCat(options.groups);
  settings["bucket-cap-mb"] = absl::StrCat(options.bucket_cap_mb);
  settings["broadcast-buffers"] = ToText(options.broadcast_buffers);
  settings["model"] = options.model;
  settings["dataset"] = options.dataset;
  settings["training samples"] = absl::StrCat(training_samples);
  settings["batch-size"] = absl::StrCat(options.batch_size);
  settings["accumulate"] = absl::StrCat(options.accumulate);
  settings["iterations"] = absl::StrCat(options.iterations);
  settings["epochs"] = absl::StrCat(options.epochs);
  settings["lr"] = absl::StrCat(options.lr);
  settings["momentum"] = absl::StrCat(options.momentum);
  settings["weight-decay"] = absl::StrCat(options.weight_decay);
  settings["seed"] = absl::StrCat(options.seed);
  settings["sampler-seed"] = absl::StrCat(options.sampler_seed);
  settings["augment"] = ToText(options.augment);
  settings["drop-last"] = ToText(options.drop_last);
  const auto defaults = Optional(WorkerOptions());
  for (const auto& [name, value] : Optional(options)) {
    if (value != defaults.at(name)) settings[name] = value;
  }
  return hello;
}

}  // namespace gradwire
