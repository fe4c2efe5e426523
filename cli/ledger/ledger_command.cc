#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/ledger/ledger_report.h"
#include "cli/terminal/commands.h"
#include "common/base/plain_text.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

constexpr char kLedgerProgram[] = "gradwire ledger";
constexpr char kLedgerHelp[] =
    "Usage: gradwire ledger COMMAND RUN-DIR [--json]\n\n"
    "Commands:\n"
    "  show    list runs, views, lost workers, checkpoints and resumes of a run directory\n"
    "  verify  check its records, and its samples against the sampler\n\n"
    "'gradwire ledger COMMAND --help' shows a command's options.\n";
constexpr char kShow[] = "Lists what the coordinators of a run directory recorded in its ledger.";
constexpr char kVerify[] =
    "Checks the ledger of a run directory: its chain of checksums; that each step is sealed once, "
    "with\n"
    "samples of all ranks, and equal results if it was computed again; the samples against the "
    "sampler;\n"
    "and that each epoch reads each sample once, except for the declared repeats.";
constexpr char kLedgerFooter[] =
    "Both commands only read, also while the run goes on. This command ignores GRADWIRE_JSON.\n"
    "\n"
    "Exit: 0 shown, or sound; 1 the records contradict each other or the sampler; 2 wrong usage, "
    "no\n"
    "ledger, a newer format, or a damaged file, with the place of the damage.";

struct LedgerOptions {
  std::string run_dir;
  bool json = false;
};

absl::StatusOr<Parsed<LedgerOptions>> ParseLedgerOptions(const std::string& program,
                                                         const char* description,
                                                         const std::vector<std::string>& args,
                                                         const Environment& environment) {
  Parsed<LedgerOptions> parsed;
  OptionParser parser(program, description, {"ledger"});
  parser.Group("Ledger");
  parser.Add("json", "true|false", "print one JSON object", Switch(&parsed.options.json));
  parser.TakeOperands("RUN-DIR", "directory of the run, as the coordinator's --run-dir");
  parser.Footer(kLedgerFooter);
  Environment own = environment;
  own.erase(VariableOf("json"));
  absl::Status status = parser.Parse(args, own, {}, &parsed);
  if (!status.ok()) return status;
  if (!parsed.print.empty()) return parsed;
  if (parser.operands().size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", parser.operands().size(), " directories, expected one RUN-DIR"));
  }
  parsed.options.run_dir = parser.operands().front();
  return parsed;
}

// Prints the text or the JSON. Returns `exit_code`, or that of output that fails.
int Print(bool as_json, const std::string& text, const nlohmann::ordered_json& json,
          int exit_code) {
  std::cout << (as_json ? json.dump(2) + "\n" : text);
  return ExitAfterPrinting(kLedgerProgram, exit_code);
}

int Show(const LedgerReport& report, bool as_json) {
  return Print(as_json, LedgerText(report), LedgerJson(report), kExitDone);
}

int Verify(const LedgerReport& report, bool as_json) {
  const LedgerVerdict verdict = Judge(report);
  return Print(as_json, VerdictText(report, verdict), VerdictJson(report, verdict),
               verdict.findings.empty() ? kExitDone : kExitFailed);
}

int RunOn(const std::string& program, const char* description,
          int (*run)(const LedgerReport& report, bool as_json),
          const std::vector<std::string>& args, const Environment& environment) {
  const auto parsed = ParseLedgerOptions(program, description, args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(program, parsed)) return *exit_code;
  const absl::StatusOr<LedgerReport> report =
      ReadReport(parsed->options.run_dir, PlacesOfCheckpoints(parsed->options.run_dir));
  if (report.ok()) return run(*report, parsed->options.json);
  std::cerr << program << ": " << WithoutControls(report.status().message()) << std::endl;
  return ExitCode(report.status());
}

}  // namespace

int LedgerCommand(const std::vector<std::string>& args, const Environment& environment) {
  if (const auto exit_code = HelpOrVersion(kLedgerProgram, kLedgerHelp, args)) return *exit_code;
  if (args.empty() || (args[0] != "show" && args[0] != "verify")) {
    return NoSuchCommand(kLedgerProgram, "command", {"show", "verify"}, args);
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  const std::string program = absl::StrCat(kLedgerProgram, " ", args[0]);
  return args[0] == "show" ? RunOn(program, kShow, Show, rest, environment)
                           : RunOn(program, kVerify, Verify, rest, environment);
}

}  // namespace gradwire
