#include "cli/bench/bench_training.h"

#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/setups.h"
#include "bench/training_rows.h"
#include "common/base/blas.h"
#include "common/base/status_util.h"
#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Argv = BenchRunner::Argv;

constexpr char kPeerScript[] = "gloo_training.py";

Argv operator+(Argv first, const Argv& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What Gradwire's worker and the peer's script are told alike.
Argv CommonArgs(const TrainingOptions& options) {
  Argv args = {"--model",      options.model,
               "--dataset",    options.dataset,
               "--batch-size", absl::StrCat(options.batch_size),
               "--iterations", absl::StrCat(options.iterations),
               "--threads",    "1"};
  if (!options.data_dir.empty()) args = args + Argv{"--data-dir", options.data_dir};
  return args;
}

Argv WorkerArgs(const TrainingOptions& options) {
  return CommonArgs(options) + Argv{"--augment",   "false",       "--print-every", "0",
                                    "--log-jsonl", "/dev/stdout", "--summary",     "/dev/stdout"};
}

// The peer computes on the same BLAS as the workers, or ends.
Argv PeerArgs(const TrainingOptions& options) {
  const absl::StatusOr<Blas> blas = FindBlas();
  return CommonArgs(options) + (blas.ok() ? Argv{"--blas", blas->path} : Argv{});
}

absl::StatusOr<BenchRunner::Outputs> RunSetup(const TrainingOptions& options, const Setup& setup,
                                              BenchRunner* runner) {
  if (setup.kind == SetupKind::kPeer) {
    return runner->RunPeers(kPeerScript, PeerArgs(options) + setup.options);
  }
  const Argv worker =
      Argv{runner->BinPath("gradwire-worker")} + WorkerArgs(options) + setup.options;
  if (setup.kind == SetupKind::kAlone) return runner->RunAlone([&](int) { return worker; });
  return runner->RunWithCoordinator([&](int rank, const std::string& address) {
    return worker + Argv{"--coordinator", address, "--rank", absl::StrCat(rank)};
  });
}

absl::Status RunRound(const TrainingOptions& options, const std::string& name, BenchRunner* runner,
                      TrainingTimes* times) {
  const Setup& setup = SetupCalled(name);
  const absl::StatusOr<BenchRunner::Outputs> outputs = RunSetup(options, setup, runner);
  if (!outputs.ok()) return outputs.status();
  return AddRound(outputs->ranks, setup.kind == SetupKind::kOwn, times);
}

void FillReport(const TrainingOptions& options, const std::map<std::string, TrainingTimes>& times,
                Report* report) {
  report->title = absl::StrCat("Training ", options.model, ", ", options.bench.workers,
                               " ranks, batch ", options.batch_size, " per rank");
  report->parts = {
      {"setups", "", TrainingColumns(), TrainingRows(options.setups, times)},
  };
  TableRows comparisons = ComparisonRows(options.setups, times);
  if (!comparisons.empty()) {
    report->parts.push_back(
        {"comparisons", "Ratio to the peer", ComparisonColumns(), std::move(comparisons)});
  }
  report->notes = {
      absl::StrCat("Set-ups ran in turn, in ", options.rounds, " rounds of ", options.iterations,
                   " iterations, the first of each not counted; one compute thread a rank, SGD, no "
                   "augmentation. The time of an iteration is the mean over the ranks: the sum of "
                   "those is what the "
                   "run took, while the longest would count twice what one rank waits in this "
                   "iteration and another in the next."),
      "Exposed communication: median of what the trainer itself waited; empty where it is hidden "
      "in backward and not measured. Efficiency: median of computation over the median."};
}

absl::Status CheckAgreement(const std::map<std::string, TrainingTimes>& times) {
  for (const auto& [name, one] : times) {
    if (one.ranks_agree) continue;
    return absl::DataLossError(
        absl::StrCat(name, ": the ranks of one run ended with different parameters"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureTraining(const TrainingOptions& options, BenchRunner* runner, Report* report) {
  std::map<std::string, TrainingTimes> times;
  absl::Status status;
  for (int round = 1; round <= options.rounds && status.ok(); ++round) {
    for (const std::string& name : options.setups) {
      status = Annotate(RunRound(options, name, runner, &times[name]),
                        absl::StrCat("round ", round, ", ", name));
      if (!status.ok()) break;
      std::cerr << absl::StreamFormat("round %d of %d  %-20s p50 so far %.3f s", round,
                                      options.rounds, name,
                                      Describe(times[name].iteration_seconds).p50)
                << std::endl;
    }
  }
  for (auto it = times.begin(); it != times.end();) {
    it = it->second.iteration_seconds.empty() ? times.erase(it) : std::next(it);
  }
  FillReport(options, times, report);
  return status.ok() ? CheckAgreement(times) : status;
}

}  // namespace gradwire
