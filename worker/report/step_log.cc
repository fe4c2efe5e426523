#include "worker/report/step_log.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/memory/memory.h"
#include "common/base/output_file.h"

namespace gradwire {

std::string ToJsonLine(const StepRecord& record) {
  nlohmann::ordered_json json;
  for (const StepFigure& figure : kStepFigures) {
    const absl::optional<FigureValue> value = figure.get(record);
    if (figure.logged && value.has_value()) json[figure.key] = FigureJson(*value);
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
