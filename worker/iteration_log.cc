#include "worker/iteration_log.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace gradwire {
namespace {

using Json = nlohmann::ordered_json;

absl::Status CannotWrite(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write '", path, "': ", std::strerror(errno)));
}

Json PhasesToJson(const PhaseTimes& times) {
  return {{"data", absl::ToDoubleSeconds(times.data)},
          {"forward", absl::ToDoubleSeconds(times.forward)},
          {"backward", absl::ToDoubleSeconds(times.backward)},
          {"communication", absl::ToDoubleSeconds(times.communication)},
          {"exposed_communication", absl::ToDoubleSeconds(times.exposed_communication)},
          {"optimizer", absl::ToDoubleSeconds(times.optimizer)}};
}

}  // namespace

std::string PathOfRank(const std::string& path, Rank rank) {
  return absl::StrReplaceAll(path, {{"{rank}", absl::StrCat(rank.value())}});
}

Json ToJson(const IterationRecord& record, Rank rank) {
  return {{"step", record.step.value()},
          {"epoch", record.epoch},
          {"rank", rank.value()},
          {"loss", std::isfinite(record.loss) ? Json(record.loss) : Json(nullptr)},
          {"iteration_seconds", absl::ToDoubleSeconds(record.times.iteration)},
          {"phase_seconds", PhasesToJson(record.times)},
          {"bytes_sent", record.bytes_sent},
          {"bytes_received", record.bytes_received},
          {"samples", record.samples}};
}

IterationLog::IterationLog(std::string path, Rank rank, std::ofstream file)
    : path_(std::move(path)), rank_(rank), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<IterationLog>> IterationLog::Open(const std::string& path,
                                                                 Rank rank) {
  const std::string own = PathOfRank(path, rank);
  std::ofstream file(own, std::ios::trunc);
  if (!file) return CannotWrite(own);
  return absl::WrapUnique(new IterationLog(own, rank, std::move(file)));
}

absl::Status IterationLog::Write(const IterationRecord& record) {
  file_ << ToJson(record, rank_).dump() << std::endl;
  return file_ ? absl::OkStatus() : CannotWrite(path_);
}

}  // namespace gradwire
