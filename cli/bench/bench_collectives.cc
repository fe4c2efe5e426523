#include "cli/bench/bench_collectives.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/collective_row.h"
#include "common/base/status_util.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPeer[] = "gloo (PyTorch)";
constexpr char kPeerScript[] = "gloo_collectives.py";

// One line of the table, yet to be measured.
struct Case {
  uint64_t bytes;
  std::string backend;
  std::string wire;
};

std::vector<Case> CasesOf(const CollectivesOptions& options) {
  std::vector<Case> cases;
  for (const uint64_t bytes : options.Sizes()) {
    for (const std::string& backend : options.backends) {
      for (const std::string& wire : options.wires) {
        if (wire != "fp32" && !TraitsOfBackend(backend).halves) continue;
        cases.push_back({bytes, backend, wire});
      }
    }
    if (options.bench.peers) cases.push_back({bytes, kPeer, "fp32"});
  }
  return cases;
}

BenchRunner::Argv LoopArgs(const CollectivesOptions& options, uint64_t bytes) {
  return {"--bytes",      absl::StrCat(bytes),
          "--warmup",     absl::StrCat(options.warmup),
          "--iterations", absl::StrCat(options.iterations),
          "--seconds",    absl::StrCat(options.seconds_per_size)};
}

absl::StatusOr<BenchRunner::Outputs> RunCase(const CollectivesOptions& options, const Case& one,
                                             BenchRunner* runner) {
  const BenchRunner::Argv loop = LoopArgs(options, one.bytes);
  if (one.backend == kPeer) return runner->RunPeers(kPeerScript, loop);
  return runner->RunWithCoordinator([&](int rank, const std::string& address) {
    BenchRunner::Argv argv = {runner->LibexecPath("gradwire-collectives"),
                              "--coordinator",
                              address,
                              "--rank",
                              absl::StrCat(rank),
                              "--world-size",
                              absl::StrCat(options.bench.workers),
                              "--backend",
                              one.backend,
                              "--wire",
                              one.wire};
    argv.insert(argv.end(), loop.begin(), loop.end());
    return argv;
  });
}

absl::StatusOr<Json> MeasureCase(const CollectivesOptions& options, const Case& one,
                                 BenchRunner* runner) {
  const absl::StatusOr<BenchRunner::Outputs> outputs = RunCase(options, one, runner);
  if (!outputs.ok()) return outputs.status();
  CollectiveRun run;
  run.backend = one.backend;
  run.wire = one.wire;
  run.bytes = one.bytes;
  for (const std::string& output : outputs->ranks) {
    run.ranks.push_back(nlohmann::json::parse(output, nullptr, /*allow_exceptions=*/false));
  }
  run.coordinator_cpu_seconds = outputs->coordinator_cpu_seconds;
  run.link_gbit = options.bench.LinkGbit();
  return MakeCollectiveRow(run);
}

void SayRow(const Json& row, int asked) {
  const auto iterations = row["iterations"].get<int>();
  std::cerr << absl::StreamFormat(
                   "%12d B  %-14s %s  p50 %.1f us  busbw %.4f GB/s%s%s",
                   row["bytes"].get<uint64_t>(), row["backend"].get<std::string>(),
                   row["wire"].get<std::string>(), row["p50_us"].get<double>(),
                   row["busbw_gb_per_s"].get<double>(),
                   iterations < asked ? absl::StrCat("  (", iterations, " iterations only)") : "",
                   row["wrong"] == 0 ? "" : "  WRONG VALUES")
            << std::endl;
}

void AddNotes(const CollectivesOptions& options, Report* report) {
  report->notes.push_back(
      "The time of an iteration is the longest of all ranks'. Results of every iteration are "
      "checked against the mean computed apart: all values in the warm-up and at the end, up to "
      "1024 spread over the bucket in measured ones.");
  if (options.seconds_per_size > 0) {
    report->notes.push_back(
        absl::StrCat("A size ends early when its measured iterations would take more than ",
                     options.seconds_per_size, " s; the column says how many there were."));
  }
  if (options.bench.LinkGbit().has_value()) {
    report->notes.push_back(
        "% of bound: least time for the payload on the busiest link, with headers at an MTU of "
        "1500, over the median.");
  }
}

}  // namespace

absl::Status MeasureCollectives(const CollectivesOptions& options, BenchRunner* runner,
                                Report* report) {
  report->title = absl::StrCat("Collectives, ", options.bench.workers, " ranks");
  report->parts.push_back({"rows", "", CollectiveColumns(), {}});
  AddNotes(options, report);
  uint64_t wrong = 0;
  for (const Case& one : CasesOf(options)) {
    absl::StatusOr<Json> row = MeasureCase(options, one, runner);
    if (!row.ok()) {
      return Annotate(row.status(), absl::StrCat(one.bytes, " bytes, ", one.backend));
    }
    SayRow(*row, options.iterations);
    wrong += (*row)["wrong"].get<uint64_t>();
    report->parts.front().rows.push_back(*std::move(row));
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(wrong, " values were wrong; see column \"wrong\""));
}

}  // namespace gradwire
