#include "cli/launch/launch_report.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "bench/bounds.h"
#include "cli/launch/bottleneck.h"
#include "common/base/json_field.h"
#include "common/base/table.h"
#include "common/telemetry/phases.h"
#include "worker/options/traits.h"
#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

// Fields that are computed here and shown beside the summary's own.
constexpr char kExposedShare[] = "exposed_share";
constexpr char kBusGbit[] = "busbw_gbit";
constexpr char kLinkShare[] = "link_share";

std::vector<TableColumn> Columns(bool with_links) {
  std::vector<TableColumn> columns = {{"rank", "rank"},
                                      {"iteration_seconds/p50", "p50 ms", 1, 1000}};
  for (const PhaseInfo& info : kPhases) {
    columns.push_back({absl::StrCat("phase_seconds/", info.name), info.title, 1, 1000});
  }
  columns.push_back({kExposedShare, "exposed %", 0, 100});
  columns.push_back({kBusGbit, "busbw Gbit/s", 2});
  if (with_links) columns.push_back({kLinkShare, "of plan %", 0, 100});
  columns.push_back({"loss/first", "first loss", 4});
  columns.push_back({"loss/last", "last loss", 4});
  columns.push_back({"test/accuracy", "accuracy %", 2, 100});
  return columns;
}

absl::StatusOr<Json> ReadSummary(const std::string& path) {
  std::ifstream file(path);
  Json summary = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!file.is_open() || !summary.is_object()) {
    return absl::FailedPreconditionError(absl::StrCat("no summary in '", path, "'"));
  }
  return summary;
}

// What a rank's communication moved, and in which time.
struct Transfer {
  std::string backend;
  int world_size = 1;
  double bytes = 0;  // of an iteration, one direction of this worker's link
  double seconds = 0;
};

absl::optional<Transfer> TransferOf(const Json& summary) {
  const auto world_size = NumberAt(summary, "/world_size");
  const auto iterations = NumberAt(summary, "/iterations");
  const auto sent = NumberAt(summary, "/bytes_sent");
  const auto received = NumberAt(summary, "/bytes_received");
  const auto seconds = NumberAt(summary, InfoOf(Phase::kCommunication).pointer);
  if (!world_size || !iterations || !sent || !received || !seconds) return absl::nullopt;
  if (*world_size < 2 || *iterations < 1 || *seconds <= 0) return absl::nullopt;
  return Transfer{TextAt(summary, "/backend"), static_cast<int>(*world_size),
                  std::max(*sent, *received) / *iterations, *seconds};
}

bool LoadsCoordinator(const Transfer& transfer) {
  return TraitsOfBackend(transfer.backend).links == LinkPattern::kCoordinator;
}

// Through the coordinator a worker sends its gradient once; with other back ends
// what leaves it is what an all-reduce puts on a link.
double BusGbit(const Transfer& transfer) {
  const double gbit = transfer.bytes / transfer.seconds * 8 / 1e9;
  return LoadsCoordinator(transfer) ? BusBandwidth(gbit, transfer.world_size) : gbit;
}

double LinkShare(const Transfer& transfer, double link_gbit) {
  LinkLoad load{transfer.bytes, 0};
  if (LoadsCoordinator(transfer)) load.coordinator_bytes = load.worker_bytes * transfer.world_size;
  return LeastSeconds(load, link_gbit) / transfer.seconds;
}

Json WithComputed(Json summary, double link_gbit) {
  const auto mean = NumberAt(summary, "/iteration_seconds/mean");
  const auto exposed = NumberAt(summary, InfoOf(Phase::kExposedCommunication).pointer);
  if (mean && exposed && *mean > 0) summary[kExposedShare] = *exposed / *mean;
  const absl::optional<Transfer> transfer = TransferOf(summary);
  if (!transfer) return summary;
  summary[kBusGbit] = BusGbit(*transfer);
  if (link_gbit > 0) summary[kLinkShare] = LinkShare(*transfer, link_gbit);
  return summary;
}

std::vector<Json> Rows(const Json& summaries, double link_gbit) {
  std::vector<Json> rows;
  for (const Json& summary : summaries.at("ranks"))
    rows.push_back(WithComputed(summary, link_gbit));
  return rows;
}

RankTimes TimesOf(const Json& summary) {
  const auto seconds = [&](const char* pointer) { return NumberAt(summary, pointer).value_or(0); };
  RankTimes times;
  times.rank = static_cast<int>(seconds("/rank"));
  times.iteration = NumberAt(summary, "/iteration_seconds/mean").value_or(kUnmeasured);
  for (const PhaseInfo& info : kPhases) times.phases[info.phase] = seconds(info.pointer);
  return times;
}

}  // namespace

absl::StatusOr<Json> CollectSummaries(const std::vector<std::string>& files) {
  Json ranks = Json::array();
  for (const std::string& file : files) {
    absl::StatusOr<Json> summary = ReadSummary(file);
    if (!summary.ok()) return summary.status();
    ranks.push_back(*std::move(summary));
  }
  return Json{{"ranks", std::move(ranks)}};
}

std::string SummaryTable(const Json& summaries, double link_gbit) {
  return TextTable(Columns(link_gbit > 0), Rows(summaries, link_gbit));
}

std::string BottleneckSentence(const Json& summaries, double link_gbit) {
  RunTimes run;
  double share = 0;
  int with_share = 0;
  for (const Json& row : Rows(summaries, link_gbit)) {
    run.sync = TextAt(row, "/sync");
    run.backend = TextAt(row, "/backend");
    run.wire = TextAt(row, "/wire");
    run.ranks.push_back(TimesOf(row));
    if (!row.contains(kLinkShare)) continue;
    share += row.at(kLinkShare).get<double>();
    ++with_share;
  }
  if (with_share > 0) run.link_share = share / with_share;
  return FindBottleneck(run).sentence;
}

}  // namespace gradwire
