#include "worker/summary.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json Numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(Number(value));
  return list;
}

Json ToJson(const Distribution& seconds) {
  return {{"mean", Number(seconds.mean)},
          {"p50", Number(seconds.p50)},
          {"p90", Number(seconds.p90)},
          {"p99", Number(seconds.p99)}};
}

Json ToJson(const PhaseMeans& phases) {
  return {{"data", Number(phases.data)},
          {"forward", Number(phases.forward)},
          {"backward", Number(phases.backward)},
          {"communication", Number(phases.communication)},
          {"exposed_communication", Number(phases.exposed_communication)},
          {"optimizer", Number(phases.optimizer)}};
}

Json ToJson(const absl::optional<TestResult>& test) {
  if (!test.has_value()) return nullptr;
  return {{"loss", Number(test->loss)}, {"accuracy", Number(test->accuracy)}};
}

void AddTo(PhaseMeans* sums, const PhaseTimes& times) {
  sums->data += absl::ToDoubleSeconds(times.data);
  sums->forward += absl::ToDoubleSeconds(times.forward);
  sums->backward += absl::ToDoubleSeconds(times.backward);
  sums->communication += absl::ToDoubleSeconds(times.communication);
  sums->exposed_communication += absl::ToDoubleSeconds(times.exposed_communication);
  sums->optimizer += absl::ToDoubleSeconds(times.optimizer);
}

PhaseMeans DividedBy(PhaseMeans sums, double count) {
  if (count == 0) count = kNotANumber;
  return {sums.data / count,
          sums.forward / count,
          sums.backward / count,
          sums.communication / count,
          sums.exposed_communication / count,
          sums.optimizer / count};
}

// Of sorted values; 0 ≤ share ≤ 1.
double Percentile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

absl::Status CannotWrite(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
}

}  // namespace

Distribution DistributionOf(std::vector<double> values) {
  if (values.empty()) return {kNotANumber, kNotANumber, kNotANumber, kNotANumber};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size()), Percentile(values, 0.5),
          Percentile(values, 0.9), Percentile(values, 0.99)};
}

Json ToJson(const Summary& summary) {
  return {{"rank", summary.rank},
          {"world_size", summary.world_size},
          {"sync", summary.sync},
          {"backend", summary.backend},
          {"wire", summary.wire},
          {"model", summary.model},
          {"dataset", summary.dataset},
          {"batch_size", summary.batch_size},
          {"iterations", summary.iterations},
          {"iteration_seconds", ToJson(summary.iteration_seconds)},
          {"phase_seconds", ToJson(summary.phase_seconds)},
          {"bytes_sent", summary.bytes_sent},
          {"bytes_received", summary.bytes_received},
          {"loss", {{"first", Number(summary.first_loss)}, {"last", Number(summary.last_loss)}}},
          {"losses", Numbers(summary.losses)},
          {"test", ToJson(summary.test)},
          {"parameters_sha256", summary.parameters_sha256},
          {"buffers_sha256", summary.buffers_sha256},
          {"samples", {{"seen", summary.samples_seen}, {"padded", summary.samples_padded}}},
          {"failures",
           {{"views", summary.views},
            {"retries", summary.retries},
            {"recomputed_ranks", summary.recomputed_ranks}}}};
}

void SummaryRecorder::Add(const IterationRecord& record) {
  ++iterations_;
  if (iterations_ == 1) {
    first_loss_ = record.loss;
  } else {
    seconds_.push_back(absl::ToDoubleSeconds(record.times.iteration));
    AddTo(&sums_, record.times);
  }
  last_loss_ = record.loss;
  if (print_every_ > 0 && iterations_ % print_every_ == 0) losses_.push_back(record.loss);
  bytes_sent_ += record.bytes_sent;
  bytes_received_ += record.bytes_received;
  samples_ += record.samples;
  padded_ += record.padded;
}

void SummaryRecorder::FillIn(Summary* summary) const {
  summary->iterations = iterations_;
  summary->iteration_seconds = DistributionOf(seconds_);
  summary->phase_seconds = DividedBy(sums_, static_cast<double>(seconds_.size()));
  summary->bytes_sent = bytes_sent_;
  summary->bytes_received = bytes_received_;
  summary->first_loss = iterations_ > 0 ? first_loss_ : kNotANumber;
  summary->last_loss = iterations_ > 0 ? last_loss_ : kNotANumber;
  summary->losses = losses_;
  summary->samples_seen = samples_;
  summary->samples_padded = padded_;
}

absl::Status WriteJsonFile(const std::string& path, const Json& json) {
  const std::string draft = absl::StrCat(path, ".", getpid(), ".tmp");
  errno = 0;
  std::ofstream file(draft);
  file << json.dump(2) << "\n";
  file.close();
  if (!file) {
    const absl::Status status = CannotWrite(path);
    std::remove(draft.c_str());
    return status;
  }
  if (std::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = CannotWrite(path);
  std::remove(draft.c_str());
  return status;
}

}  // namespace gradwire
