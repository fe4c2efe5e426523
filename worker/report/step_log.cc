#include "worker/report/step_log.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/memory/memory.h"
#include "common/base/output_file.h"

namespace gradwire {

std::string ToJsonLine(const StepRecord& record) {
  nlohmann::ordered_json json = {
      {"step", record.step.value()},
      {"epoch", record.epoch},
      {"rank", record.rank.value()},
      {"loss", record.loss},
      {"lr", record.lr},
      {"samples", record.samples},
      {"iteration_seconds", absl::ToDoubleSeconds(record.iteration)},
      {"phase_seconds", PhaseJson(ToSeconds(record.phases))},
      {"bytes_sent", record.bytes_sent},
      {"bytes_received", record.bytes_received},
      {"time", static_cast<double>(absl::ToUnixMicros(record.time)) / 1e6}};
  if (record.staleness.has_value()) {
    json["lag"] = record.staleness->lag;
    json["spread"] = record.staleness->spread;
  }
  if (record.skipped) json["skipped"] = true;
  if (record.compressed.has_value()) {
    json["compression_ratio"] = record.compressed->ratio;
    if (record.compressed->residual.has_value()) {
      json["residual_norm"] = *record.compressed->residual;
    }
  }
  return json.dump() + "\n";
}

std::string ToJsonLine(Rank rank, const EpochRow& row) {
  nlohmann::ordered_json json = {{"kind", "epoch"}, {"rank", rank.value()}};
  json.update(EpochJson(row));
  return json.dump() + "\n";
}

std::string ToJsonLine(Rank rank, const Recovery& recovery) {
  nlohmann::ordered_json json = {{"kind", "recovery"}, {"rank", rank.value()}};
  json.update(RecoveryJson(recovery));
  return json.dump() + "\n";
}

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Open(absl::string_view path, bool goes_on) {
  // Several ranks of a worker may have one file, so each line goes to its end.
  if (!goes_on) {
    if (std::FILE* const emptied = std::fopen(std::string(path).c_str(), "we"))
      std::fclose(emptied);
  }
  std::FILE* const file = std::fopen(std::string(path).c_str(), "ae");
  if (file == nullptr) return absl::InvalidArgumentError(CannotWrite(path, errno));
  return absl::WrapUnique(new StepLog(path, file));
}

absl::Status StepLog::Write(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (!written || std::fflush(file_.get()) != 0) {
    return absl::InternalError(CannotWrite(path_, errno));
  }
  return absl::OkStatus();
}

}  // namespace gradwire
