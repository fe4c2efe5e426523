#include "deploy/launcher/report_options.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_util.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire report";

constexpr char kDescription[] =
    "gradwire report [OPTIONS] LOG...\n\n"
    "Turns the --log-jsonl files of one or several runs into an HTML page with figures, and CSV\n"
    "beside it: of report.html, report.runs.csv and report.steps.csv.";

constexpr char kFooter[] =
    "Logs whose names differ only in their rank are one run, as gradwire launch writes them:\n"
    "ddp-4.rank0.jsonl, ddp-4.rank1.jsonl ... are run ddp-4. --run NAME=FILE,FILE puts a run\n"
    "together by hand, and may be given several times. Give the logs of all ranks. Scaling is\n"
    "shown where runs are named alike but for their number of ranks: ddp-2, ddp-4, or ddp-w2,\n"
    "ddp-w4. The figures need gnuplot (Debian's gnuplot-nox).\n"
    "\n"
    "Example: gradwire report --out compare.html ring.rank*.jsonl ddp.rank*.jsonl";

// The arguments by kind.
struct Split {
  std::vector<std::string> options;
  std::vector<std::string> logs;
  std::vector<std::string> runs;
};

Split SplitArguments(const std::vector<std::string>& args) {
  Split split;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const bool has_next = i + 1 < args.size();
    if (arg == "--") {
      split.logs.insert(split.logs.end(), args.begin() + i + 1, args.end());
      break;
    }
    if (arg == "--run" && has_next) {
      split.runs.push_back(args[++i]);
    } else if (absl::StartsWith(arg, "--run=")) {
      split.runs.push_back(arg.substr(6));
    } else if ((arg == "--out" || arg == "--config") && has_next) {
      split.options.insert(split.options.end(), {arg, args[++i]});
    } else {
      (absl::StartsWith(arg, "-") ? split.options : split.logs).push_back(arg);
    }
  }
  return split;
}

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
  return value;
}

absl::Status CheckFile(const std::string& file, const ReportFiles& outputs,
                       std::set<std::string>* seen) {
  if (file == outputs.html || file == outputs.runs_csv || file == outputs.steps_csv) {
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
  const ReportFiles outputs = FilesOf(options.out);
  std::set<std::string> seen;
  absl::Status status;
  for (const std::string& file : all) status.Update(CheckFile(file, outputs, &seen));
  return status;
}

}  // namespace

ReportFiles FilesOf(const std::string& out) {
  const std::string stem = std::filesystem::path(out).replace_extension().string();
  return {out, absl::StrCat(stem, ".runs.csv"), absl::StrCat(stem, ".steps.csv")};
}

absl::StatusOr<Parsed<ReportOptions>> ParseReportOptions(const std::vector<std::string>& args,
                                                         const Environment& environment) {
  Parsed<ReportOptions> parsed;
  ReportOptions& options = parsed.options;
  Split split = SplitArguments(args);
  OptionParser parser(kProgram, kDescription, {"report"});
  parser.Group("Report");
  parser.Add("out", "FILE", "the HTML page; CSV files are written beside it", Text(&options.out));
  parser.Add("run", "NAME=FILE[,FILE...]", "logs of all ranks of a run, and its name",
             Run(&options));
  parser.Footer(kFooter);
  absl::Status status = parser.Parse(split.options, environment);
  if (!status.ok()) return status;
  parsed.print = parser.print();
  if (!parsed.print.empty()) return parsed;
  for (const std::string& run : split.runs) status.Update(Annotate(AddRun(run, &options), "--run"));
  options.logs = std::move(split.logs);
  if (status.ok()) status = CheckFiles(options);
  if (!status.ok()) return status;
  parsed.sources = parser.sources();
  parsed.texts = parser.texts();
  parsed.warnings = UnknownVariables(environment);
  return parsed;
}

}  // namespace gradwire
