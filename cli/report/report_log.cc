#include "cli/report/report_log.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"
#include "worker/report/summary.h"

namespace gradwire {
namespace {

using Json = nlohmann::json;

constexpr int kMostRank = 65534;  // the coordinator takes no higher one
constexpr size_t kQuoted = 40;

// The beginning of what was found, for messages: without control characters and what is no ASCII.
std::string Quoted(absl::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kQuoted)) shown += c >= ' ' && c < 0x7f ? c : '?';
  return absl::StrCat("'", shown, text.size() > kQuoted ? "…" : "", "'");
}

// Reads the fields of one line; remembers the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& line) : line_(line) {}

  // Null, which a time or a loss that is not finite becomes, is NaN.
  double Number(const char* pointer) {
    const Json* value = Find(pointer);
    if (value == nullptr || value->is_null()) return kUnmeasured;
    if (!value->is_number()) Wrong(pointer, *value, "a number");
    return value->is_number() ? value->get<double>() : kUnmeasured;
  }
  int64_t Whole(const char* pointer, int64_t most = INT64_MAX) {
    const Json* value = Find(pointer);
    if (value == nullptr) return 0;
    const bool fits =
        value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(most);
    if (!fits) Wrong(pointer, *value, "a whole number");
    return fits ? value->get<int64_t>() : 0;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const Json* Find(const char* pointer) {
    const Json::json_pointer at(pointer);
    if (line_.contains(at)) return &line_.at(at);
    if (wrong_.empty()) {
      wrong_ = absl::StrCat("got no field '", pointer + 1,
                            "', expected it in every line (a log of another version?)");
    }
    return nullptr;
  }
  void Wrong(const char* pointer, const Json& got, const char* expected) {
    if (!wrong_.empty()) return;
    wrong_ = absl::StrCat("field '", pointer + 1, "': got ", Quoted(got.dump()), ", expected ",
                          expected, " (a log of another version?)");
  }

  const Json& line_;
  std::string wrong_;
};

absl::StatusOr<LogRecord> ParseRecord(absl::string_view text) {
  const Json line =
      Json::parse(text.data(), text.data() + text.size(), nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Quoted(text), ", expected a JSON object as of --log-jsonl"));
  }
  Fields fields(line);
  LogRecord record;
  record.step = static_cast<uint64_t>(fields.Whole("/step"));
  record.epoch = fields.Whole("/epoch");
  record.rank = static_cast<int>(fields.Whole("/rank", kMostRank));
  record.loss = fields.Number("/loss");
  record.samples = fields.Whole("/samples");
  record.iteration = fields.Number("/iteration_seconds");
  for (const PhaseInfo& info : kPhases) record.phases[info.phase] = fields.Number(info.pointer);
  record.bytes_sent = fields.Number("/bytes_sent");
  record.bytes_received = fields.Number("/bytes_received");
  if (!fields.wrong().empty()) return absl::InvalidArgumentError(fields.wrong());
  return record;
}

absl::Status CheckFollows(const RankLog& log, const LogRecord& record) {
  if (log.records.empty()) return absl::OkStatus();
  if (record.rank != log.rank) {
    return absl::InvalidArgumentError(absl::StrCat("got rank ", record.rank, ", expected rank ",
                                                   log.rank, " as in the lines before"));
  }
  const uint64_t last = log.records.back().step;
  if (record.step > last) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("got step ", record.step, ", expected one after step ", last));
}

absl::Status AddLine(absl::string_view text, RankLog* log) {
  const absl::StatusOr<LogRecord> record = ParseRecord(text);
  if (!record.ok()) return record.status();
  const absl::Status follows = CheckFollows(*log, *record);
  if (!follows.ok()) return follows;
  log->rank = record->rank;
  log->records.push_back(*record);
  return absl::OkStatus();
}

// Workers write whole lines, so this was cut by a full disk or in a copy.
absl::Status CutShort(absl::string_view line) {
  return absl::InvalidArgumentError(absl::StrCat(
      "got a last line that ends after ", line.size(), " bytes: ", Quoted(line),
      ", expected a whole one; the file was cut short; without this line it can be shown"));
}

}  // namespace

absl::StatusOr<RankLog> ParseRankLog(const std::string& path, absl::string_view text) {
  RankLog log;
  log.file = path;
  log.text = std::string(text);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool whole = end != absl::string_view::npos;
    const absl::string_view line = text.substr(0, end);
    text.remove_prefix(whole ? end + 1 : text.size());
    absl::Status added = AddLine(line, &log);
    if (added.ok()) continue;
    if (!whole && number > 1) added = CutShort(line);
    return Annotate(added, absl::StrCat(path, ":", number));
  }
  if (!log.records.empty()) return log;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": got an empty file, expected a line for each iteration"));
}

absl::StatusOr<RankLog> ReadRankLog(const std::string& path) {
  std::ifstream file(path);
  if (file) file.peek();  // a folder can be opened, and not read
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the log '", path, "': ", std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return ParseRankLog(path, text.str());
}

}  // namespace gradwire
