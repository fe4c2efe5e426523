#include "bench/collective_row.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/bounds.h"
#include "worker/options/traits.h"
#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

bool HasFields(const nlohmann::json& rank) {
  if (!rank.is_object() || !rank.contains("seconds") || !rank["seconds"].is_array()) return false;
  for (const char* field :
       {"cpu_seconds", "bytes_sent", "bytes_received", "iterations_in_all", "wrong"}) {
    if (!rank.contains(field) || !rank[field].is_number()) return false;
  }
  return true;
}

absl::Status Check(const CollectiveRun& run) {
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    if (!HasFields(run.ranks[r])) {
      return absl::InternalError(absl::StrCat("rank ", r, " printed no report"));
    }
    const size_t measured = run.ranks[r]["seconds"].size();
    const size_t expected = run.ranks[0]["seconds"].size();
    if (measured != expected || measured == 0) {
      return absl::InternalError(
          absl::StrCat("rank ", r, " measured ", measured, " iterations, rank 0 ", expected));
    }
  }
  return absl::OkStatus();
}

std::vector<double> LongestOfRanks(const CollectiveRun& run) {
  std::vector<double> longest(run.ranks[0]["seconds"].size(), 0);
  for (const nlohmann::json& rank : run.ranks) {
    for (size_t i = 0; i < longest.size(); ++i) {
      longest[i] = std::max(longest[i], rank["seconds"][i].get<double>());
    }
  }
  return longest;
}

double Sum(const CollectiveRun& run, const char* field) {
  double sum = 0;
  for (const nlohmann::json& rank : run.ranks) sum += rank[field].get<double>();
  return sum;
}

Json CpuSecondsPerGb(const CollectiveRun& run) {
  double cpu_seconds = Sum(run, "cpu_seconds");
  double bytes = Sum(run, "bytes_sent");
  if (TraitsOfBackend(run.backend).links == LinkPattern::kCoordinator) {
    if (!run.coordinator_cpu_seconds.has_value()) return nullptr;
    const nlohmann::json& rank = run.ranks[0];
    const auto measured = static_cast<double>(rank["seconds"].size());
    cpu_seconds +=
        *run.coordinator_cpu_seconds * measured / rank["iterations_in_all"].get<double>();
    bytes += Sum(run, "bytes_received");  // all of it sent by the coordinator
  }
  if (bytes == 0) return nullptr;
  return cpu_seconds / (bytes / 1e9);
}

Json BoundPercent(const CollectiveRun& run, double seconds) {
  if (!run.link_gbit.has_value()) return nullptr;
  const double wire_bytes = static_cast<double>(run.bytes) / 4 * WireBytes(run.wire);
  const int world_size = static_cast<int>(run.ranks.size());
  const LinkLoad load = LoadOfAverage(run.backend, world_size, wire_bytes);
  return 100 * LeastSeconds(load, *run.link_gbit) / seconds;
}

}  // namespace

absl::StatusOr<Json> MakeCollectiveRow(const CollectiveRun& run) {
  absl::Status status = Check(run);
  if (!status.ok()) return status;
  const std::vector<double> seconds = LongestOfRanks(run);
  const IterationSeconds times = Describe(seconds);
  const double gbps = static_cast<double>(run.bytes) / times.p50 / 1e9;
  return Json{{"bytes", run.bytes},
              {"count", run.bytes / 4},
              {"type", "float32"},
              {"backend", run.backend},
              {"wire", run.wire},
              {"iterations", seconds.size()},
              {"min_us", *std::min_element(seconds.begin(), seconds.end()) * 1e6},
              {"p50_us", times.p50 * 1e6},
              {"p99_us", times.p99 * 1e6},
              {"algbw_gb_per_s", gbps},
              {"busbw_gb_per_s", BusBandwidth(gbps, static_cast<int>(run.ranks.size()))},
              {"bound_percent", BoundPercent(run, times.p50)},
              {"cpu_seconds_per_gb", CpuSecondsPerGb(run)},
              {"wrong", static_cast<uint64_t>(Sum(run, "wrong"))}};
}

const std::vector<TableColumn>& CollectiveColumns() {
  static const auto* const columns =
      new std::vector<TableColumn>{{"bytes", "size (B)"},
                                   {"count", "count"},
                                   {"type", "type"},
                                   {"backend", "backend"},
                                   {"wire", "wire"},
                                   {"iterations", "iterations"},
                                   {"min_us", "min (us)", 1},
                                   {"p50_us", "p50 (us)", 1},
                                   {"p99_us", "p99 (us)", 1},
                                   {"algbw_gb_per_s", "algbw (GB/s)", 4},
                                   {"busbw_gb_per_s", "busbw (GB/s)", 4},
                                   {"bound_percent", "% of bound", 1},
                                   {"cpu_seconds_per_gb", "CPU-s/GB", 2},
                                   {"wrong", "wrong"}};
  return *columns;
}

}  // namespace gradwire
