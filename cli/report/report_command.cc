#include "cli/report/report_command.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/report/gnuplot.h"
#include "cli/report/report_figures.h"
#include "cli/report/report_html.h"
#include "cli/report/report_options.h"
#include "cli/report/report_runs.h"
#include "cli/report/report_stats.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire report";

absl::Status CheckAllWritable(const ReportFiles& files) {
  for (const std::string& file : {files.html, files.runs_csv, files.steps_csv}) {
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

absl::StatusOr<std::vector<DrawnFigure>> Draw(const std::vector<RunStats>& runs,
                                              const std::string& gnuplot) {
  std::vector<DrawnFigure> drawn;
  for (const Figure& figure : MakeFigures(runs)) {
    absl::StatusOr<std::string> svg = DrawSvg(gnuplot, figure.key, figure.script);
    if (!svg.ok()) return Annotate(svg.status(), absl::StrCat("figure '", figure.title, "'"));
    drawn.push_back({figure.title, figure.caption, *std::move(svg)});
  }
  return drawn;
}

absl::Status Write(const ReportFiles& files, const ReportPage& page) {
  absl::Status status = ReplaceFile(files.runs_csv, RunsCsv(page.runs));
  status.Update(ReplaceFile(files.steps_csv, StepsCsv(page.runs)));
  status.Update(ReplaceFile(files.html, ToHtml(page)));
  return status;
}

absl::Status MakeReport(const ReportOptions& options, const Environment& environment) {
  const ReportFiles files = FilesOf(options.out);
  const absl::Status writable = CheckAllWritable(files);
  if (!writable.ok()) return writable;
  const absl::StatusOr<std::string> gnuplot = FindGnuplot(environment);
  if (!gnuplot.ok()) return gnuplot.status();
  const absl::StatusOr<std::vector<LoggedRun>> runs = ReadRuns(options);
  if (!runs.ok()) return runs.status();
  ReportPage page;
  page.notes = NotesOf(*runs);
  for (const LoggedRun& run : *runs) page.runs.push_back(Describe(run));
  page.runs_csv = std::filesystem::path(files.runs_csv).filename().string();
  page.steps_csv = std::filesystem::path(files.steps_csv).filename().string();
  absl::StatusOr<std::vector<DrawnFigure>> figures = Draw(page.runs, *gnuplot);
  if (!figures.ok()) return figures.status();
  page.figures = *std::move(figures);
  PrintWarnings(kProgram, page.notes);
  return Write(files, page);
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
