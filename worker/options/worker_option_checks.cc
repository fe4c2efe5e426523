#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "common/rpc/reach.h"
#include "worker/options/choices.h"
#include "worker/options/sync_choice.h"
#include "worker/options/traits.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

absl::Status CheckRanks(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (options.ranks.empty()) return absl::OkStatus();
  const std::string& source = parsed.sources.at("rank").name;
  const int last = options.ranks.back().value();
  if (options.world_size > 0 && last >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": got '", last, "', expected a rank from 0 to ",
                     options.world_size - 1, ", because the world size is ", options.world_size,
                     " (", parsed.sources.at("world-size").name, ")"));
  }
  if (options.ranks.size() == 1 || TraitsOfBackend(options.backend).several_ranks) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(source, ": got ", options.ranks.size(),
                                                 " ranks, expected one, because back end ",
                                                 options.backend, " carries one rank per worker"));
}

// A sync that averages nothing accepts no option for several ranks.
absl::Status CheckAlone(const Parsed<WorkerOptions>& parsed, bool backend_given) {
  const WorkerOptions& options = parsed.options;
  if (TraitsOfSync(options.sync).averages) return absl::OkStatus();
  const bool other_rank = !options.ranks.empty() && options.ranks.back() > Rank(0);
  if (options.world_size > 1 || other_rank) {
    const bool size = options.world_size > 1;
    return absl::InvalidArgumentError(absl::StrCat(
        "--sync ", options.sync, " is for one process alone; got ", size ? "world size " : "rank ",
        size ? options.world_size : options.ranks.back().value(), " (",
        parsed.sources.at(size ? "world-size" : "rank").name, ")"));
  }
  if (backend_given) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sync ", options.sync, " averages nothing, so it takes no back end; got '",
                     options.backend, "' (", parsed.sources.at("backend").name, ")"));
  }
  if (options.compress != WorkerOptions().compress) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sync ", options.sync, " sends nothing, so it compresses nothing; got '",
                     options.compress, "' (", parsed.sources.at("compress").name, ")"));
  }
  if (options.wire != WorkerOptions().wire) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--sync ", options.sync, " sends nothing, so it takes no type on the wire; got '",
        options.wire, "' (", parsed.sources.at("wire").name, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckHosting(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (!options.host_coordinator || (!options.ranks.empty() && options.world_size > 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("host-coordinator").name, ": got no ",
                   options.ranks.empty() ? "rank" : "world size",
                   ", expected both in the options or the launcher's environment, because rank 0 "
                   "hosts the coordinator"));
}

absl::Status CheckCompression(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  const absl::StatusOr<Compression> compression = CompressionOf(options);
  const std::string source = parsed.sources.at("compress").name;
  if (!compression.ok()) return Annotate(compression.status(), source);
  if (!compression->is_on()) return absl::OkStatus();
  const auto refuse = [&](const char* name, absl::string_view got, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": got '", options.compress, "' with ",
                                                   got, " (", parsed.sources.at(name).name,
                                                   "), expected ", why));
  };
  if (IsGiven(parsed, "wire")) {
    return refuse("wire", absl::StrCat("wire ", options.wire), "one of them");
  }
  if (compression->is_coded() && !TraitsOfBackend(options.backend).codecs) {
    return refuse("backend", absl::StrCat("back end ", options.backend),
                  "auto, coordinator, sharded or memory, which decode");
  }
  if (compression->has_density && options.nesterov) {
    return refuse("nesterov", "nesterov", "plain momentum, which the ranks apply");
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (options.groups == 1 || options.connections == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("groups").name, ": got ", options.groups, " groups with ",
                   options.connections, " connections (", parsed.sources.at("connections").name,
                   "), expected one of the two to be 1: a group has a connection of its own"));
}

absl::Status CheckSecurity(const WorkerOptions& options) {
  absl::Status status = CheckTls(options.backend, WantsTls(options.security));
  if (status.ok()) status = CheckReach("--listen", options.listen, options.security);
  return status.ok() ? CheckReach("--metrics", options.metrics, options.security) : status;
}

absl::Status CheckIteration(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (options.accumulate <= INT64_MAX / options.batch_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("accumulate").name, ": got '", options.accumulate,
                   "' times a batch size of ", options.batch_size, ", which is too many samples"));
}

absl::Status CheckInference(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (options.inference.empty()) return absl::OkStatus();
  for (const auto& [name, given] :
       {std::pair<const char*, bool>{"evaluate-every", options.evaluate_every > 0},
        {"evaluate", options.evaluate},
        {"save-weights", !options.save_weights.empty()},
        {"replication", IsGiven(parsed, "replication")}}) {
    if (!given) continue;
    return absl::InvalidArgumentError(absl::StrCat("--inference trains nothing, so it takes no --",
                                                   name, "; got it in ",
                                                   parsed.sources.at(name).name));
  }
  return absl::OkStatus();
}

// Emulated computation has no devices, no scores and no weights.
absl::Status CheckEmulation(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (!options.compute_seconds.has_value()) {
    if (options.late_seconds == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.sources.at("late-seconds").name, ": got ", options.late_seconds,
                     ", which only --compute-seconds can sleep; expected both or neither"));
  }
  for (const auto& [name, given] : {std::pair<const char*, bool>{"devices", options.devices > 1},
                                    {"inference", !options.inference.empty()},
                                    {"save-weights", !options.save_weights.empty()}}) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.sources.at("compute-seconds").name,
                     ": sleeps instead of computing, so it takes no --", name, "; got it in ",
                     parsed.sources.at(name).name));
  }
  return absl::OkStatus();
}

absl::Status CheckSavedWeights(const Parsed<WorkerOptions>& parsed) {
  const std::string& path = parsed.options.save_weights;
  for (const char* end : {".safetensors", ".pt", ".pth"}) {
    if (path.empty() || absl::EndsWith(path, end)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("save-weights").name, ": got '", path,
                   "', expected a name that ends in .safetensors, .pt or .pth"));
}

// Refuses options that a periodic sync does not support.
absl::Status CheckPeriodic(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (!TraitsOfSync(options.sync).periodic) return absl::OkStatus();
  if (options.compress != kNoCompression) {
    return absl::InvalidArgumentError(absl::StrCat(
        parsed.sources.at("compress").name, ": got ", options.compress, " with --sync ",
        options.sync, " (", parsed.sources.at("sync").name,
        "), which exchanges models, expected a sync that exchanges gradients, or --wire bf16"));
  }
  const absl::StatusOr<int64_t> interval = IntervalOfSync(options.sync);
  if (options.delay < *interval) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("delay").name, ": got ", options.delay, " with --sync ",
                   options.sync, " (", parsed.sources.at("sync").name,
                   "), expected fewer steps than between two exchanges, 0 to ", *interval - 1));
}

// Refuses options that a served model (parameter server) does not support.
absl::Status CheckServed(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (!TraitsOfSync(options.sync).served) return absl::OkStatus();
  const auto refuse = [&](const char* name, absl::string_view expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.sources.at(name).name, ": got it with --sync ", options.sync, " (",
                     parsed.sources.at("sync").name, "), expected ", expected));
  };
  if (!TraitsOfBackend(options.backend).aggregates) {
    return refuse("backend",
                  "coordinator, or sharded with separate aggregators, which keep the model");
  }
  if (options.wire != WorkerOptions().wire) {
    return refuse("wire", "fp32, because parameters are pulled without rounding");
  }
  if (options.compress != kNoCompression) {
    return refuse("compress", "none, because parameters are pulled without rounding");
  }
  if (options.clip_norm > 0) {
    return refuse("clip-norm",
                  "no limit, because aggregators apply each rank's gradient separately");
  }
  if (options.connections > 1) return refuse("connections", "1 to each aggregator");
  return options.groups > 1 ? refuse("groups", "1") : absl::OkStatus();
}

absl::Status CheckMomentum(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  if (!options.nesterov || options.momentum > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(parsed.sources.at("nesterov").name, ": got momentum 0 (",
                   parsed.sources.at("momentum").name, "), expected a momentum above 0"));
}

// All workers see the same mean, so they act alike.
absl::Status CheckNonfinite(const Parsed<WorkerOptions>& parsed) {
  const WorkerOptions& options = parsed.options;
  const std::string& source = parsed.sources.at("on-nonfinite").name;
  if (options.on_nonfinite == WorkerOptions().on_nonfinite) return absl::OkStatus();
  const SyncTraits sync = TraitsOfSync(options.sync);
  if (sync.periodic || sync.served) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": got ", options.on_nonfinite, " with --sync ", options.sync, " (",
                     parsed.sources.at("sync").name,
                     "), expected a sync whose workers apply the mean of gradients"));
  }
  if (options.on_nonfinite != "skip" || options.compress == kNoCompression) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": got skip with --compress ", options.compress, " (",
                   parsed.sources.at("compress").name,
                   "), expected none: the residual that a rank keeps would be infinite, too"));
}

absl::Status CheckEvaluation(const Parsed<WorkerOptions>& parsed) {
  if (parsed.options.evaluate || parsed.options.evaluate_every == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      parsed.sources.at("evaluate").name, ": got false with ",
      parsed.sources.at("evaluate-every").name, ", expected true, or only one of them"));
}

}  // namespace

bool IsGiven(const Parsed<WorkerOptions>& parsed, const std::string& name) {
  return parsed.sources.at(name).layer != Layer::kDefault;
}

absl::Status CheckWorkerOptions(const Parsed<WorkerOptions>& parsed, bool backend_given) {
  absl::Status status = CheckAlone(parsed, backend_given);
  if (status.ok()) status = CheckRanks(parsed);
  if (status.ok()) status = CheckHosting(parsed);
  if (status.ok()) {
    status = CheckWire(parsed.options.backend, parsed.options.wire, parsed.sources.at("wire").name);
  }
  if (status.ok()) status = CheckCompression(parsed);
  if (status.ok()) status = CheckGroups(parsed);
  if (status.ok()) status = CheckSecurity(parsed.options);
  if (status.ok()) status = CheckIteration(parsed);
  if (status.ok()) status = CheckInference(parsed);
  if (status.ok()) status = CheckEmulation(parsed);
  if (status.ok()) status = CheckSavedWeights(parsed);
  if (status.ok()) status = CheckMomentum(parsed);
  if (status.ok()) status = CheckPeriodic(parsed);
  if (status.ok()) status = CheckServed(parsed);
  if (status.ok()) status = CheckNonfinite(parsed);
  if (status.ok()) status = CheckEvaluation(parsed);
  return status;
}

}  // namespace gradwire
