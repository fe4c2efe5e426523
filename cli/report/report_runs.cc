#include "cli/report/report_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 10;
constexpr char kSeparators[] = "-_. ";
// Stands for the rank; in no path.
constexpr char kRankMark = '\0';

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

struct Span {
  size_t begin = 0;
  size_t size = 0;
};

// The last number in `path` that is `rank`, with a word "rank" before it; {} if none is.
Span FindRank(const std::string& path, int rank) {
  const std::string wanted = absl::StrCat(rank);
  for (size_t end = path.size(); end > 0;) {
    if (!IsDigit(path[end - 1])) {
      --end;
      continue;
    }
    size_t begin = end;
    while (begin > 0 && IsDigit(path[begin - 1])) --begin;
    if (path.substr(begin, end - begin) == wanted) return {begin, end - begin};
    end = begin;
  }
  return {};
}

// The same for all ranks of a run.
std::string KeyOf(const RankLog& log) {
  const Span number = FindRank(log.file, log.rank);
  if (number.size == 0) return log.file;
  std::string key = log.file;
  return key.replace(number.begin, number.size, 1, kRankMark);
}

// Takes away the mark, a word "rank" before it, and separators at both ends.
std::string WithoutRank(std::string name) {
  const size_t mark = name.find(kRankMark);
  if (mark != std::string::npos) {
    std::string before = name.substr(0, mark);
    std::string after = name.substr(mark + 1);
    const auto trim = [](std::string* text) {
      text->erase(text->find_last_not_of(kSeparators) + 1);
    };
    trim(&before);
    if (absl::EndsWith(before, "rank")) before.resize(before.size() - 4);
    trim(&before);
    name = before + after;
  }
  const size_t first = name.find_first_not_of(kSeparators);
  const size_t last = name.find_last_not_of(kSeparators);
  return first == std::string::npos ? "" : name.substr(first, last - first + 1);
}

// Of a group of logs with this key. A log alone keeps its name as it is, unless
// that says that it is a rank's.
std::string ShortName(const std::string& key, const std::vector<RankLog>& logs) {
  const std::string own = fs::path(logs.front().file).stem().string();
  const bool alone = logs.size() == 1 && !absl::StrContains(own, "rank");
  const std::string stem = alone ? own : WithoutRank(fs::path(key).stem().string());
  return stem.empty() ? own : stem;
}

// With the innermost folder that is not named after the rank alone.
std::string LongName(const std::string& key, const std::vector<RankLog>& logs) {
  const std::string name = ShortName(key, logs);
  const fs::path path(logs.size() == 1 ? logs.front().file : key);
  std::string folder;
  for (const fs::path& part : path.parent_path().relative_path()) {
    const std::string shown = WithoutRank(part.string());
    if (!shown.empty()) folder = shown;
  }
  return folder.empty() ? name : absl::StrCat(folder, "/", name);
}

// Names of all groups, made different.
std::vector<std::string> NamesOfGroups(
    const std::vector<std::pair<std::string, std::vector<RankLog>>>& groups) {
  std::map<std::string, int> count;
  for (const auto& [key, logs] : groups) ++count[ShortName(key, logs)];
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const auto& [key, logs] : groups) {
    std::string name = ShortName(key, logs);
    if (count[name] > 1) name = LongName(key, logs);
    if (!taken.insert(name).second) taken.insert(name = logs.front().file);
    names.push_back(std::move(name));
  }
  return names;
}

// "w4", "4", "4ranks": what stands for the number of ranks between separators.
bool SaysRanks(std::string token, size_t ranks) {
  token = absl::AsciiStrToLower(token);
  const std::string number = absl::StrCat(ranks);
  for (const char* word : {"w", "n", "x", "worker", "workers", "rank", "ranks", "node", "nodes"}) {
    if (token == absl::StrCat(word, number) || token == absl::StrCat(number, word)) return true;
  }
  return token == number;
}

std::vector<int> MissingRanks(const LoggedRun& run) {
  std::vector<int> missing;
  int expected = 0;
  for (const RankLog& log : run.ranks) {
    for (; expected < log.rank; ++expected) missing.push_back(expected);
    ++expected;
  }
  return missing;
}

// "" if all ranks have the same last step.
std::string UnequalEnds(const LoggedRun& run) {
  const auto [first, last] = std::minmax_element(
      run.ranks.begin(), run.ranks.end(), [](const RankLog& a, const RankLog& b) {
        return a.records.back().step < b.records.back().step;
      });
  if (first->records.back().step == last->records.back().step) return "";
  return absl::StrCat("Run ", run.name, ": the log of rank ", first->rank, " ends with step ",
                      first->records.back().step, ", that of rank ", last->rank, " with step ",
                      last->records.back().step, ", so a worker was lost or the run goes on.");
}

}  // namespace

absl::StatusOr<NamedLogs> ParseNamedLogs(const std::string& text) {
  const size_t equals = text.find('=');
  NamedLogs logs;
  if (equals != std::string::npos) {
    logs.name = std::string(absl::StripAsciiWhitespace(text.substr(0, equals)));
    logs.files = absl::StrSplit(text.substr(equals + 1), ',', absl::SkipEmpty());
  }
  if (!logs.name.empty() && !logs.files.empty()) return logs;
  return absl::InvalidArgumentError(absl::StrCat("got '", text, "', expected NAME=FILE[,FILE...]"));
}

absl::StatusOr<LoggedRun> MakeRun(std::string name, std::vector<RankLog> logs) {
  std::sort(logs.begin(), logs.end(),
            [](const RankLog& a, const RankLog& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < logs.size(); ++i) {
    if (logs[i].rank != logs[i - 1].rank) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", logs[i - 1].file, "' and '", logs[i].file, "' are both of rank ", logs[i].rank,
        " of run ", name, "; if they are of two runs, say so: --run NAME=FILE,FILE"));
  }
  LoggedRun run;
  run.setup = SetupName(name, logs.size());
  run.name = std::move(name);
  run.ranks = std::move(logs);
  return run;
}

absl::StatusOr<std::vector<LoggedRun>> GroupRuns(std::vector<RankLog> logs) {
  std::vector<std::pair<std::string, std::vector<RankLog>>> groups;
  for (RankLog& log : logs) {
    const std::string key = KeyOf(log);
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return group.first == key; });
    if (known != groups.end()) {
      known->second.push_back(std::move(log));
    } else {
      groups.emplace_back(key, std::vector<RankLog>{std::move(log)});
    }
  }
  std::vector<std::string> names = NamesOfGroups(groups);
  std::vector<LoggedRun> runs;
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StatusOr<LoggedRun> run = MakeRun(std::move(names[i]), std::move(groups[i].second));
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  return runs;
}

std::string SetupName(const std::string& name, size_t ranks) {
  std::string setup;
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find_first_of(kSeparators, begin), name.size());
    const std::string token = name.substr(begin, end - begin);
    if (!SaysRanks(token, ranks)) {
      if (!setup.empty() && begin > 0) setup += name[begin - 1];
      setup += token;
    }
    begin = end + 1;
  }
  return setup.empty() ? name : setup;
}

std::vector<std::string> NotesOf(const std::vector<LoggedRun>& runs) {
  std::vector<std::string> notes;
  for (const LoggedRun& run : runs) {
    const std::vector<int> missing = MissingRanks(run);
    if (!missing.empty()) {
      const std::string which = missing.size() > kMostNamed
                                    ? absl::StrCat(missing.size(), " ranks")
                                    : absl::StrCat("rank ", absl::StrJoin(missing, ", "));
      notes.push_back(absl::StrCat("Run ", run.name, " has no log of ", which,
                                   "; its figures are of the other ranks alone."));
    }
    const std::string ends = UnequalEnds(run);
    if (!ends.empty()) notes.push_back(ends);
  }
  return notes;
}

}  // namespace gradwire
