#include "cli/report/report_command.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/bench/job_group.h"
#include "cli/report/report_data.h"
#include "cli/report/report_options.h"
#include "cli/report/report_runs.h"
#include "cli/terminal/scratch_dir.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = "gradwire report";
constexpr char kPython[] = "/usr/bin/python3";  // Debian's, which finds Debian's matplotlib
constexpr absl::Duration kTimeToDraw = absl::Minutes(10);

absl::Status CheckAllWritable(const std::string& out) {
  for (const std::string& file : FilesOf(out)) {
    const absl::Status writable = CheckWritable(file);
    if (!writable.ok()) return Annotate(writable, "--out");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RankLog>> ReadAll(const std::vector<std::string>& files) {
  std::vector<RankLog> logs;
  for (const std::string& file : files) {
    absl::StatusOr<RankLog> log = ReadRankLog(file);
    if (!log.ok()) return log.status();
    logs.push_back(*std::move(log));
  }
  return logs;
}

absl::StatusOr<std::vector<LoggedRun>> ReadRuns(const ReportOptions& options) {
  std::vector<LoggedRun> runs;
  for (const NamedLogs& named : options.runs) {
    absl::StatusOr<std::vector<RankLog>> logs = ReadAll(named.files);
    if (!logs.ok()) return logs.status();
    absl::StatusOr<LoggedRun> run = MakeRun(named.name, *std::move(logs));
    if (!run.ok()) return run.status();
    runs.push_back(*std::move(run));
  }
  absl::StatusOr<std::vector<RankLog>> logs = ReadAll(options.logs);
  if (!logs.ok()) return logs.status();
  absl::StatusOr<std::vector<LoggedRun>> grouped = GroupRuns(*std::move(logs));
  if (!grouped.ok()) return grouped.status();
  std::move(grouped->begin(), grouped->end(), std::back_inserter(runs));
  std::set<std::string> names;
  for (const LoggedRun& run : runs) {
    if (names.insert(run.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("--run: the logs without --run are of a run '",
                                                   run.name, "' too; choose another name"));
  }
  return runs;
}

// Has the page, tables and figures written by libexec/report/report.py; without the
// settings and packages of this user's Python, which may not fit Debian's matplotlib.
absl::Status Write(const std::string& data, const std::string& out,
                   const Environment& environment) {
  const ScratchDir scratch;
  if (scratch.path().empty()) {
    return absl::InternalError("cannot make a folder for temporary files (TMPDIR)");
  }
  const std::string file = absl::StrCat(scratch.path(), "/data.json");
  const absl::Status written = ReplaceFile(file, data);
  if (!written.ok()) return written;
  const fs::path script = fs::path(ProgramDir()).parent_path() / "libexec/report/report.py";
  const Job job{"report.py",
                {{kPython, "-E", "-s", "-B", script.string(), file, out}, environment}};
  return RunJob(job, kTimeToDraw, [] { return false; }).status();
}

absl::Status MakeReport(const ReportOptions& options, const Environment& environment) {
  const absl::Status writable = CheckAllWritable(options.out);
  if (!writable.ok()) return writable;
  const absl::StatusOr<std::vector<LoggedRun>> runs = ReadRuns(options);
  if (!runs.ok()) return runs.status();
  const std::vector<std::string> notes = NotesOf(*runs);
  PrintWarnings(kProgram, notes);
  return Write(ReportData(*runs, notes), options.out, environment);
}

}  // namespace

int ReportCommand(const std::vector<std::string>& args, const Environment& environment) {
  const absl::StatusOr<Parsed<ReportOptions>> parsed = ParseReportOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const absl::Status status = MakeReport(parsed->options, environment);
  if (status.ok()) return kExitDone;
  std::cerr << kProgram << ": " << status.message() << std::endl;
  return ExitCode(status);
}

}  // namespace gradwire
