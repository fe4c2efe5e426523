#include "bench/plan.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/bounds.h"
#include "common/telemetry/phases.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<TableColumn>& BucketColumns() {
  static const auto* const columns = new std::vector<TableColumn>{
      {"bucket", "bucket"}, {"bytes", "bytes on the wire"}, {"what", "what"}};
  return *columns;
}

std::vector<TableColumn> BackendColumns(const PlanInput& input) {
  std::vector<TableColumn> columns = {{"backend", "backend"},
                                      {"worker_bytes", "worker, bytes/step"},
                                      {"coordinator_bytes", "coordinator, bytes/step"},
                                      {"transfer_seconds", "transfer (s)", 3}};
  if (input.compute_seconds.has_value()) {
    columns.push_back({"barrier_seconds", "iteration, barrier (s)", 3});
    columns.push_back({"overlap_seconds", "iteration, overlap (s)", 3});
  }
  if (input.layout.samples.has_value()) {
    columns.push_back({"worker_bytes_per_epoch", "worker, bytes/epoch"});
    columns.push_back({"epoch_seconds", "epoch, at least (s)", 1});
  }
  if (input.measured.has_value()) {
    columns.push_back({"measured_seconds", "measured iteration (s)", 3});
    columns.push_back({"measured_exposed_seconds", "measured exposed (s)", 3});
    columns.push_back({"measured_bytes", "measured, bytes/step"});
  }
  return columns;
}

double OnWire(const PlanInput& input, double float_bytes) {
  return float_bytes / 4 * WireBytes(input.wire);
}

TableRows BucketRows(const PlanInput& input) {
  TableRows rows;
  for (size_t i = 0; i < input.layout.buckets.size(); ++i) {
    const PlannedLayout::Bucket& bucket = input.layout.buckets[i];
    const auto bytes = static_cast<double>(bucket.bytes);
    rows.push_back(
        {{"bucket", i},
         {"bytes", static_cast<uint64_t>(bucket.averaged ? OnWire(input, bytes) : bytes)},
         {"what", bucket.averaged ? "gradients, averaged" : "buffers, rank 0's"}});
  }
  return rows;
}

// Bytes are whole, but for a part of one where shares do not divide.
int64_t Whole(double bytes) { return static_cast<int64_t>(bytes + 0.5); }

void AddEpoch(const PlanInput& input, const LinkLoad& load, double iteration_seconds, Json* row) {
  if (!input.layout.samples.has_value()) return;
  const int64_t steps = StepsPerEpoch(*input.layout.samples, input.workers, input.batch_size);
  (*row)["worker_bytes_per_epoch"] = Whole(load.worker_bytes) * steps;
  (*row)["epoch_seconds"] = iteration_seconds * static_cast<double>(steps);
}

void AddMeasured(const PlanInput& input, const std::string& backend, Json* row) {
  if (!input.measured.has_value() || input.measured->backend != backend) return;
  (*row)["measured_seconds"] = input.measured->iteration_seconds;
  (*row)["measured_exposed_seconds"] = input.measured->exposed_seconds;
  (*row)["measured_bytes"] = Whole(input.measured->bytes_sent_per_step);
}

Json BackendRow(const PlanInput& input, const std::string& backend) {
  const LinkLoad load =
      LoadOfAverage(backend, input.workers, OnWire(input, input.layout.AveragedBytes())) +
      LoadOfBroadcast(backend, input.workers, input.layout.CopiedBytes());
  const double transfer = LeastSeconds(load, input.link_gbit);
  Json row = {{"backend", backend},
              {"worker_bytes", Whole(load.worker_bytes)},
              {"coordinator_bytes", Whole(load.coordinator_bytes)},
              {"transfer_seconds", transfer}};
  double iteration = transfer;
  if (input.compute_seconds.has_value()) {
    iteration = OverlapSeconds(*input.compute_seconds, transfer);
    row["barrier_seconds"] = BarrierSeconds(*input.compute_seconds, transfer);
    row["overlap_seconds"] = iteration;
  }
  AddEpoch(input, load, iteration, &row);
  AddMeasured(input, backend, &row);
  return row;
}

Json Facts(const PlanInput& input) {
  Json facts = {{"model", absl::StrCat(input.model, ", ", input.layout.parameters, " parameters")},
                {"workers", input.workers},
                {"link", absl::StrCat(input.link_gbit, " Gbit/s, both ways at once")},
                {"wire", input.wire},
                {"batch", absl::StrCat(input.batch_size, " per worker, ",
                                       input.batch_size * input.workers, " in all")}};
  if (input.layout.samples.has_value()) {
    facts["epoch"] = absl::StrCat(
        *input.layout.samples, " samples, ",
        StepsPerEpoch(*input.layout.samples, input.workers, input.batch_size), " steps");
  }
  if (input.compute_seconds.has_value()) {
    facts["computation alone"] = absl::StrFormat("%.3f s an iteration", *input.compute_seconds);
  }
  if (input.measured.has_value()) {
    facts["measured"] =
        absl::StrCat("sync ", input.measured->sync, ", backend ", input.measured->backend);
  }
  return facts;
}

template <typename T>
absl::Status Read(const nlohmann::json& json, const char* pointer, T* field) {
  const nlohmann::json::json_pointer at(pointer);
  const bool text = std::is_same_v<T, std::string>;
  if (!json.contains(at) || (text ? !json[at].is_string() : !json[at].is_number())) {
    return absl::InvalidArgumentError(absl::StrCat("the summary lacks ", pointer + 1));
  }
  *field = json[at].get<T>();
  return absl::OkStatus();
}

absl::StatusOr<MeasuredRun> ReadRank(const nlohmann::json& rank) {
  MeasuredRun run;
  double iterations = 0, forward = 0, backward = 0, optimizer = 0;
  absl::Status status = Read(rank, "/world_size", &run.workers);
  status.Update(Read(rank, "/sync", &run.sync));
  status.Update(Read(rank, "/backend", &run.backend));
  status.Update(Read(rank, "/wire", &run.wire));
  status.Update(Read(rank, "/model", &run.model));
  status.Update(Read(rank, "/batch_size", &run.batch_size));
  status.Update(Read(rank, "/iterations", &iterations));
  status.Update(Read(rank, "/iteration_seconds/p50", &run.iteration_seconds));
  status.Update(Read(rank, InfoOf(Phase::kExposedCommunication).pointer, &run.exposed_seconds));
  status.Update(Read(rank, InfoOf(Phase::kForward).pointer, &forward));
  status.Update(Read(rank, InfoOf(Phase::kBackward).pointer, &backward));
  status.Update(Read(rank, InfoOf(Phase::kOptimizer).pointer, &optimizer));
  status.Update(Read(rank, "/bytes_sent", &run.bytes_sent_per_step));
  if (!status.ok()) return status;
  run.compute_seconds = forward + backward + optimizer;
  run.bytes_sent_per_step /= iterations;
  return run;
}

MeasuredRun MeanOf(const std::vector<MeasuredRun>& runs) {
  MeasuredRun mean = runs.front();
  mean.iteration_seconds = mean.exposed_seconds = 0;
  mean.compute_seconds = mean.bytes_sent_per_step = 0;
  const auto count = static_cast<double>(runs.size());
  for (const MeasuredRun& run : runs) {
    mean.iteration_seconds += run.iteration_seconds / count;
    mean.exposed_seconds += run.exposed_seconds / count;
    mean.compute_seconds += run.compute_seconds / count;
    mean.bytes_sent_per_step += run.bytes_sent_per_step / count;
  }
  return mean;
}

}  // namespace

double PlannedLayout::AveragedBytes() const {
  double bytes = 0;
  for (const Bucket& bucket : buckets) bytes += bucket.averaged ? bucket.bytes : 0;
  return bytes;
}

double PlannedLayout::CopiedBytes() const {
  double bytes = 0;
  for (const Bucket& bucket : buckets) bytes += bucket.averaged ? 0 : bucket.bytes;
  return bytes;
}

absl::StatusOr<PlannedLayout> LayoutFromJson(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("buckets") || !json.contains("parameters")) {
    return absl::InternalError("no layout: buckets or parameters are missing");
  }
  PlannedLayout layout;
  for (const nlohmann::json& bucket : json["buckets"]) {
    layout.buckets.push_back({bucket.at("bytes"), bucket.at("averaged")});
  }
  for (const nlohmann::json& tensor : json["parameters"]) {
    int64_t elements = 1;
    for (const nlohmann::json& extent : tensor.at("shape")) elements *= extent.get<int64_t>();
    layout.parameters += elements;
  }
  if (json.contains("samples")) layout.samples = json["samples"].get<int64_t>();
  return layout;
}

absl::StatusOr<MeasuredRun> RunFromSummary(const nlohmann::json& summary) {
  const bool many = summary.is_object() && summary.contains("ranks");
  const nlohmann::json ranks = many ? summary["ranks"] : nlohmann::json::array({summary});
  if (ranks.empty()) return absl::InvalidArgumentError("the summary has no ranks");
  std::vector<MeasuredRun> runs;
  for (const nlohmann::json& rank : ranks) {
    absl::StatusOr<MeasuredRun> run = ReadRank(rank);
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  return MeanOf(runs);
}

int64_t StepsPerEpoch(int64_t samples, int workers, int64_t batch_size) {
  const int64_t per_rank = (samples + workers - 1) / workers;
  return (per_rank + batch_size - 1) / batch_size;
}

Report MakePlan(const PlanInput& input) {
  Report report;
  report.title = absl::StrCat("Plan: ", input.model, " on ", input.workers, " workers");
  report.environment = Facts(input);
  TableRows rows;
  for (const std::string& backend : input.backends) rows.push_back(BackendRow(input, backend));
  report.parts = {{"backends", "Least times, by back end", BackendColumns(input), std::move(rows)},
                  {"buckets", "Buckets, in the order in which they are ready", BucketColumns(),
                   BucketRows(input)}};
  report.notes = {
      "Bytes are payload, for each direction of a link. Transfer: the busiest link's bytes at its "
      "speed, with headers at an MTU of 1500 (1448 of 1514 bytes are payload).",
      "With a barrier an iteration takes computation + transfer, with overlap at least the longer "
      "of the two."};
  return report;
}

}  // namespace gradwire
