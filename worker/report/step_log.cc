#include "worker/report/step_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/memory/memory.h"
#include "common/base/output_file.h"

namespace gradwire {

namespace {

// In whole microseconds, like the other rows.
double Seconds(absl::Time time) { return static_cast<double>(absl::ToUnixMicros(time)) / 1e6; }

std::vector<int> Numbers(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

nlohmann::ordered_json CarriersJson(const ViewChange& change) {
  nlohmann::ordered_json carriers = nlohmann::ordered_json::array();
  for (const Adoption& adoption : change.adoptions) {
    carriers.push_back(
        {{"ranks", Numbers(adoption.by.ranks)}, {"adopted", Numbers(adoption.ranks)}});
  }
  return carriers;
}

// Lines are shorter.
constexpr int64_t kLongestLine = 64 << 10;

// Removes a last line without its end: no reader could take the line that is appended to it.
void RemovePartOfLine(const std::string& path) {
  struct stat info = {};
  const bool is_file = stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file || OwnDescriptor(path).has_value()) return;
  const int64_t begin = std::max<int64_t>(0, info.st_size - kLongestLine);
  std::string last(static_cast<size_t>(info.st_size - begin), '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(begin);
  if (!file.read(&last[0], static_cast<std::streamsize>(last.size()))) return;
  const size_t end = last.rfind('\n');
  if (end == std::string::npos && begin > 0) return;
  const int64_t whole = begin + (end == std::string::npos ? 0 : static_cast<int64_t>(end) + 1);
  if (whole < info.st_size && truncate(path.c_str(), whole) != 0) return;  // Write will tell
}

}  // namespace

nlohmann::ordered_json RecoveryJson(const Recovery& recovery) {
  return {{"generation", recovery.generation.value()},
          {"first_step", recovery.step.value()},
          {"losses", recovery.change.lost.size()},
          {"lost_ranks", Numbers(recovery.change.LostRanks())},
          {"carriers", CarriersJson(recovery.change)},
          {"ranks", Numbers(recovery.ranks)},
          {"adopted", Numbers(recovery.adopted)},
          {"heard", Seconds(recovery.heard)},
          {"gone_on", Seconds(recovery.gone_on)},
          {"seconds_lost", absl::ToDoubleSeconds(recovery.lost.total())},
          {"seconds_lost_by_phase", PhasesOf(recovery.lost)}};
}

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
  // Several ranks of a worker may share a file, so each line is appended.
  if (!goes_on) {
    if (std::FILE* const emptied = OpenOutput(path, "w")) std::fclose(emptied);
  } else {
    RemovePartOfLine(std::string(path));
  }
  std::FILE* const file = OpenOutput(path, "a");
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
