#include "cli/plan/measured_run.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/telemetry/phases.h"

namespace gradwire {
namespace {

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
  status.Update(Read(rank, "/compress", &run.compress));
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

}  // namespace gradwire
