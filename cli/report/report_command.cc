#include <utility>

#include "cli/terminal/commands.h"
#include "common/telemetry/phases.h"

namespace gradwire {
namespace {

constexpr char kReportProgram[] = "gradwire report";

constexpr char kReportDescription[] =
    "Makes an HTML page with figures from the --log-jsonl files of one or several runs. Next to\n"
    "report.html it writes report.runs.csv, report.steps.csv, and each figure (loss,\n"
    "iteration-time, phases, scaling) as PNG, SVG and PDF: report.loss.png and so on.";

constexpr char kReportFooter[] =
    "Logs whose names differ only in the rank belong to one run, as gradwire launch writes them:\n"
    "ddp-4.rank0.jsonl, ddp-4.rank1.jsonl ... are run ddp-4. --run NAME=FILE,FILE names the files\n"
    "of a run explicitly, and may be repeated. Give the logs of all ranks. The page shows scaling\n"
    "if the names of runs differ only in the number of ranks: ddp-2, ddp-4, or ddp-w2, ddp-w4.\n"
    "The figures need matplotlib (Debian's python3-matplotlib).\n"
    "\n"
    "Example: gradwire report --out compare.html ring.rank*.jsonl ddp.rank*.jsonl";

OptionValue AddTo(std::vector<std::string>* texts) {
  OptionValue value;
  value.set = [=](const std::string& text) {
    texts->push_back(text);
    return absl::OkStatus();
  };
  value.is_list = true;
  return value;
}

}  // namespace

absl::StatusOr<Parsed<ScriptCall>> ParseReportOptions(const std::vector<std::string>& args,
                                                      const Environment& environment) {
  std::string out = "report.html";
  std::vector<std::string> runs;
  OptionParser parser(kReportProgram, kReportDescription, {"report"});
  parser.Group("Report");
  parser.Add("out", "FILE", "HTML page; CSV files and figures go next to it", Text(&out));
  parser.Add("run", "NAME=FILE[,FILE...]", "name of a run, and the logs of all its ranks",
             AddTo(&runs));
  parser.TakeOperands("LOG", "file that one rank wrote with --log-jsonl");
  parser.Footer(kReportFooter);
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (!status.ok()) return status;
  std::vector<std::string> operands = {out};
  operands.insert(operands.end(), runs.begin(), runs.end());
  operands.insert(operands.end(), parser.operands().begin(), parser.operands().end());
  parsed.options = {"cli/report/report.py",
                    {{"phases", PhaseListJson()},
                     {"runs", runs.size()},
                     {"runs_from", parser.source("run").name}},
                    std::move(operands)};
  return parsed;
}

int ReportCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kReportProgram, ParseReportOptions(args, environment), environment);
}

}  // namespace gradwire
