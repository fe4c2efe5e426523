#include "common/base/environment.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/suggest.h"

namespace gradwire {
namespace {

constexpr absl::string_view kPrefix = "GRADWIRE_";

// The options of all programs, and the variables that are no option, without kPrefix. One
// list, because one environment is usually shared by several programs.
const std::vector<std::string>& KnownVariables() {
  static const auto* const known = [] {
    auto* names = new std::vector<std::string>;
    for (const char* option : {"accumulate",
                               "advertise",
                               "again",
                               "aggregate-only",
                               "aggregation-summary",
                               "aggregators",
                               "augment",
                               "backend",
                               "backends",
                               "barrier",
                               "base-batch",
                               "batch-size",
                               "broadcast-buffers",
                               "bucket-cap-mb",
                               "check-replicas",
                               "chunk-kib",
                               "classes",
                               "clip-norm",
                               "compress",
                               "compress-warmup",
                               "compute-seconds",
                               "config",
                               "connect-timeout-seconds",
                               "connections",
                               "coordinator",
                               "coordinator-metrics",
                               "csv",
                               "data-dir",
                               "dataset",
                               "delay",
                               "devices",
                               "drop-last",
                               "epochs",
                               "evaluate",
                               "evaluate-every",
                               "factor",
                               "freeze-features",
                               "groups",
                               "hidden",
                               "host-coordinator",
                               "hostfile",
                               "hosts",
                               "http-names",
                               "http-token",
                               "image-size",
                               "inference",
                               "insecure",
                               "instructions",
                               "iterations",
                               "json",
                               "lease-seconds",
                               "linger-seconds",
                               "link",
                               "link-gbit",
                               "listen",
                               "loaders",
                               "local-rank",
                               "local-world-size",
                               "log-jsonl",
                               "loss",
                               "lr",
                               "lr-gamma",
                               "lr-schedule",
                               "lr-step-epochs",
                               "markdown",
                               "master-ip",
                               "max-bytes",
                               "memory-gib",
                               "metrics",
                               "min-bytes",
                               "min-lease-seconds",
                               "min-workers",
                               "model",
                               "momentum",
                               "nesterov",
                               "network",
                               "num-nodes",
                               "on-loss",
                               "on-nonfinite",
                               "ops",
                               "optimizer",
                               "out",
                               "outer-lr",
                               "outer-momentum",
                               "pause-timeout",
                               "peers",
                               "per-host",
                               "plain-http",
                               "port",
                               "port-file",
                               "print-every",
                               "program",
                               "progress",
                               "rank",
                               "rank-options",
                               "rate",
                               "rendezvous-timeout-seconds",
                               "rounds",
                               "run",
                               "sampler-seed",
                               "samples",
                               "save-weights",
                               "scale",
                               "scale-lr",
                               "seconds-per-size",
                               "seed",
                               "set-epoch",
                               "setups",
                               "sizes",
                               "staleness",
                               "step-timeout-seconds",
                               "summary",
                               "sync",
                               "target",
                               "threads",
                               "timeout-seconds",
                               "tls",
                               "tls-ca",
                               "tls-cert",
                               "tls-key",
                               "token-file",
                               "trace",
                               "warmup",
                               "warmup-epochs",
                               "watch",
                               "weight-decay",
                               "weights",
                               "wire",
                               "workers",
                               "world-size"}) {
      names->push_back(VariableOf(option).substr(kPrefix.size()));
    }
    return names;
  }();
  return *known;
}

}  // namespace

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string Value(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string VariableOf(absl::string_view option) {
  return absl::StrCat(kPrefix, absl::AsciiStrToUpper(absl::StrReplaceAll(option, {{"-", "_"}})));
}

std::vector<std::string> UnknownVariables(const Environment& environment) {
  const std::vector<std::string>& known = KnownVariables();
  std::vector<std::string> sentences;
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, kPrefix)) continue;
    const std::string option = name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), option) != known.end()) continue;
    sentences.push_back(
        absl::StrCat("unknown environment variable ", name, DidYouMean(option, known, kPrefix)));
  }
  return sentences;
}

}  // namespace gradwire
