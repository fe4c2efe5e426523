#include "cli/report/report_options.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_util.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire report";

constexpr char kDescription[] =
    "Turns the --log-jsonl files of one or several runs into an HTML page with figures. Beside\n"
    "report.html stand report.runs.csv and report.steps.csv, and each figure as PNG, SVG and PDF:\n"
    "report.loss.png and so on, also of iteration-time, phases and scaling.";

constexpr char kFooter[] =
    "Logs whose names differ only in their rank are one run, as gradwire launch writes them:\n"
    "ddp-4.rank0.jsonl, ddp-4.rank1.jsonl ... are run ddp-4. --run NAME=FILE,FILE puts a run\n"
    "together by hand, and may be given several times. Give the logs of all ranks. Scaling is\n"
    "shown where runs are named alike but for their number of ranks: ddp-2, ddp-4, or ddp-w2,\n"
    "ddp-w4. The figures need matplotlib (Debian's python3-matplotlib).\n"
    "\n"
    "Example: gradwire report --out compare.html ring.rank*.jsonl ddp.rank*.jsonl";

absl::Status AddRun(const std::string& text, ReportOptions* options) {
  absl::StatusOr<NamedLogs> run = ParseNamedLogs(text);
  if (!run.ok()) return run.status();
  const auto same = [&](const NamedLogs& other) { return other.name == run->name; };
  if (std::any_of(options->runs.begin(), options->runs.end(), same)) {
    return absl::InvalidArgumentError(absl::StrCat("there are two runs '", run->name, "'"));
  }
  options->runs.push_back(*std::move(run));
  return absl::OkStatus();
}

OptionValue Run(ReportOptions* options) {
  OptionValue value;
  value.set = [=](const std::string& text) { return AddRun(text, options); };
  value.is_list = true;
  return value;
}

absl::Status CheckFile(const std::string& file, const std::vector<std::string>& outputs,
                       std::set<std::string>* seen) {
  if (std::count(outputs.begin(), outputs.end(), file) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out: '", file, "' is one of the logs, and would be overwritten"));
  }
  if (seen->insert(file).second) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", file, "' is named twice"));
}

absl::Status CheckFiles(const ReportOptions& options) {
  std::vector<std::string> all = options.logs;
  for (const NamedLogs& run : options.runs) {
    all.insert(all.end(), run.files.begin(), run.files.end());
  }
  if (all.empty()) {
    return absl::InvalidArgumentError("no log is named; a worker writes one with --log-jsonl");
  }
  const std::vector<std::string> outputs = FilesOf(options.out);
  std::set<std::string> seen;
  absl::Status status;
  for (const std::string& file : all) status.Update(CheckFile(file, outputs, &seen));
  return status;
}

}  // namespace

std::vector<std::string> FilesOf(const std::string& out) {
  const std::string stem = std::filesystem::path(out).replace_extension().string();
  return {out, absl::StrCat(stem, ".runs.csv"), absl::StrCat(stem, ".steps.csv")};
}

absl::StatusOr<Parsed<ReportOptions>> ParseReportOptions(const std::vector<std::string>& args,
                                                         const Environment& environment) {
  Parsed<ReportOptions> parsed;
  ReportOptions& options = parsed.options;
  OptionParser parser(kProgram, kDescription, {"report"});
  parser.Group("Report");
  parser.Add("out", "FILE", "the HTML page; CSV files and figures go beside it",
             Text(&options.out));
  parser.Add("run", "NAME=FILE[,FILE...]", "logs of all ranks of a run, and its name",
             Run(&options));
  parser.TakeOperands("LOG", "what one rank wrote with --log-jsonl");
  parser.Footer(kFooter);
  absl::Status status = parser.Parse(args, environment);
  if (!status.ok()) return status;
  parsed.print = parser.print();
  if (!parsed.print.empty()) return parsed;
  options.logs = parser.operands();
  status = CheckFiles(options);
  if (!status.ok()) return status;
  parsed.sources = parser.sources();
  parsed.texts = parser.texts();
  parsed.warnings = UnknownVariables(environment);
  return parsed;
}

}  // namespace gradwire
