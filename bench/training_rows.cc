#include "bench/training_rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/setups.h"
#include "common/telemetry/phases.h"
#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kComputation[] = "computation";

// What one rank printed.
struct RankOutput {
  std::vector<double> iteration_seconds;
  std::vector<double> exposed_seconds;
  std::string parameters_sha256;
};

absl::Status AddLine(const nlohmann::json& line, RankOutput* output) {
  const auto seconds = line.find("iteration_seconds");
  if (seconds == line.end() || !seconds->is_number()) {
    return absl::InternalError("an iteration without iteration_seconds");
  }
  output->iteration_seconds.push_back(*seconds);
  const nlohmann::json::json_pointer exposed(InfoOf(Phase::kExposedCommunication).pointer);
  if (line.contains(exposed) && line[exposed].is_number()) {
    output->exposed_seconds.push_back(line[exposed]);
  }
  return absl::OkStatus();
}

absl::StatusOr<RankOutput> ParseOutput(const std::string& text) {
  RankOutput output;
  // The summary is the object that begins with a line of its own.
  const size_t summary_at = text.rfind("\n{\n");
  for (absl::string_view line :
       absl::StrSplit(text.substr(0, summary_at), '\n', absl::SkipWhitespace())) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) {
      return absl::InternalError(absl::StrCat("a line that is no JSON object: ", line));
    }
    absl::Status status = AddLine(json, &output);
    if (!status.ok()) return status;
  }
  if (summary_at == std::string::npos) return output;
  const auto summary = nlohmann::json::parse(text.substr(summary_at), nullptr, false);
  if (!summary.is_object()) return absl::InternalError("a summary that is no JSON object");
  output.parameters_sha256 = summary.value("parameters_sha256", "");
  return output;
}

double MeanAt(const std::vector<RankOutput>& outputs, std::vector<double> RankOutput::*seconds,
              size_t iteration) {
  double sum = 0;
  for (const RankOutput& output : outputs) sum += (output.*seconds)[iteration];
  return sum / static_cast<double>(outputs.size());
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double Median(const std::map<std::string, TrainingTimes>& times, const std::string& name) {
  const auto found = times.find(name);
  return found == times.end() ? kUnmeasured : Describe(found->second.iteration_seconds).p50;
}

}  // namespace

absl::Status AddRound(const std::vector<std::string>& ranks, bool compare, TrainingTimes* times) {
  std::vector<RankOutput> outputs;
  std::set<std::string> hashes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    absl::StatusOr<RankOutput> output = ParseOutput(ranks[r]);
    if (!output.ok()) {
      return absl::InternalError(absl::StrCat("rank ", r, " printed ", output.status().message()));
    }
    outputs.push_back(*std::move(output));
    hashes.insert(outputs.back().parameters_sha256);
    if (outputs[r].iteration_seconds.size() != outputs[0].iteration_seconds.size()) {
      return absl::InternalError(
          absl::StrCat("rank ", r, " printed ", outputs[r].iteration_seconds.size(),
                       " iterations, rank 0 ", outputs[0].iteration_seconds.size()));
    }
  }
  const bool exposed = std::all_of(outputs.begin(), outputs.end(), [&](const RankOutput& output) {
    return output.exposed_seconds.size() == outputs[0].iteration_seconds.size();
  });
  for (size_t i = 1; i < outputs[0].iteration_seconds.size(); ++i) {
    times->iteration_seconds.push_back(MeanAt(outputs, &RankOutput::iteration_seconds, i));
    if (!exposed) continue;
    times->exposed_seconds.push_back(MeanAt(outputs, &RankOutput::exposed_seconds, i));
  }
  if (compare && hashes.size() > 1) times->ranks_agree = false;
  return absl::OkStatus();
}

TableRows TrainingRows(const std::vector<std::string>& names,
                       const std::map<std::string, TrainingTimes>& times) {
  TableRows rows;
  const double computation = Median(times, kComputation);
  for (const std::string& name : names) {
    const auto found = times.find(name);
    if (found == times.end()) continue;
    const IterationSeconds iteration = Describe(found->second.iteration_seconds);
    const IterationSeconds exposed = Describe(found->second.exposed_seconds);
    rows.push_back({{"setup", name},
                    {"system", SetupCalled(name).kind == SetupKind::kPeer ? "PyTorch" : "Gradwire"},
                    {"iterations", found->second.iteration_seconds.size()},
                    {"p50_seconds", iteration.p50},
                    {"p90_seconds", iteration.p90},
                    {"exposed_seconds", NumberOrNull(exposed.p50)},
                    {"over_computation_seconds", NumberOrNull(iteration.p50 - computation)},
                    {"efficiency_percent", NumberOrNull(100 * computation / iteration.p50)}});
  }
  return rows;
}

const std::vector<TableColumn>& TrainingColumns() {
  static const auto* const columns =
      new std::vector<TableColumn>{{"setup", "set-up"},
                                   {"system", "system"},
                                   {"iterations", "iterations"},
                                   {"p50_seconds", "p50 (s)", 3},
                                   {"p90_seconds", "p90 (s)", 3},
                                   {"exposed_seconds", "exposed communication (s)", 3},
                                   {"over_computation_seconds", "over computation (s)", 3},
                                   {"efficiency_percent", "efficiency (%)", 1}};
  return *columns;
}

TableRows ComparisonRows(const std::vector<std::string>& names,
                         const std::map<std::string, TrainingTimes>& times) {
  TableRows rows;
  for (const std::string& name : names) {
    for (const std::string& peer : SetupCalled(name).peers) {
      const double own = Median(times, name), other = Median(times, peer);
      if (!std::isfinite(own) || !std::isfinite(other)) continue;
      rows.push_back({{"setup", name},
                      {"p50_seconds", own},
                      {"peer", peer},
                      {"peer_p50_seconds", other},
                      {"ratio", own / other}});
    }
  }
  return rows;
}

const std::vector<TableColumn>& ComparisonColumns() {
  static const auto* const columns =
      new std::vector<TableColumn>{{"setup", "set-up"},
                                   {"p50_seconds", "p50 (s)", 3},
                                   {"peer", "peer"},
                                   {"peer_p50_seconds", "its p50 (s)", 3},
                                   {"ratio", "ratio", 2}};
  return *columns;
}

}  // namespace gradwire
