#include "cli/launch/launch_command.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/launch/launch_options.h"
#include "cli/launch/launch_plan.h"
#include "cli/launch/launch_report.h"
#include "cli/launch/supervisor.h"
#include "cli/terminal/scratch_dir.h"
#include "cli/terminal/script.h"
#include "cli/terminal/terminal.h"
#include "common/base/output_file.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

namespace fs = std::filesystem;

constexpr char kProgram[] = "gradwire launch";
constexpr absl::Duration kTimeToListen = absl::Seconds(30);

// One launch: starts the members in their order and waits for them.
class Launch {
 public:
  Launch(const LaunchOptions& options, const LaunchPlaces& places, const Environment& environment)
      : options_(options),
        places_(places),
        environment_(environment),
        terminal_(STDOUT_FILENO, STDERR_FILENO, CanDrawBar(environment)),
        supervisor_(&terminal_) {}

  int Run() {
    std::string coordinator;
    absl::Status status;
    if (NeedsCoordinator(options_)) status = StartCoordinator(&coordinator);
    for (int worker = 0; worker < options_.workers && status.ok(); ++worker) {
      status = supervisor_.Start(MemberOf(worker, coordinator));
    }
    if (!status.ok()) supervisor_.Fail(ExitCode(status), std::string(status.message()));
    const int exit_code = supervisor_.Run();
    const bool traced = options_.trace.empty() || WriteTrace();
    if (!supervisor_.cause().empty()) {
      Say(absl::StrCat(supervisor_.cause(), "; all have ended"));
      return exit_code;
    }
    if (!options_.program.empty()) return kExitDone;
    const int reported = Report();
    return traced ? reported : kExitFailed;
  }

 private:
  static bool CanDrawBar(const Environment& environment) {
    return isatty(STDERR_FILENO) == 1 && Value(environment, "TERM") != "dumb";
  }

  int BarColumns() const { return terminal_.draws_bar() ? terminal_.Columns() : 0; }

  Member MemberOf(int worker, const std::string& coordinator) const {
    if (!options_.program.empty()) {
      return ProgramMember(options_, environment_, worker, coordinator);
    }
    return WorkerMember(options_, places_, environment_, worker, coordinator, BarColumns());
  }

  void Say(const std::string& sentence) {
    terminal_.PrintLine(Output::kErr, absl::StrCat(kProgram, ": ", sentence));
  }

  // OK with an empty address if the coordinator failed: the supervisor knows.
  absl::Status StartCoordinator(std::string* address) {
    const std::string port_file = PortFile(options_, places_);
    std::error_code ignored;
    fs::remove(port_file, ignored);  // of an earlier run
    absl::Status status = supervisor_.Start(CoordinatorMember(options_, places_, environment_));
    if (!status.ok()) return status;
    const bool listens = supervisor_.RunUntil(
        [&] { return !(*address = CoordinatorAddress(ReadFile(port_file))).empty(); },
        kTimeToListen);
    if (!listens) {
      return absl::InternalError(absl::StrCat("the coordinator wrote no address to '", port_file,
                                              "' within ", absl::FormatDuration(kTimeToListen)));
    }
    const std::string metrics = MetricsAddress(ReadFile(port_file));
    if (!metrics.empty()) {
      Say(absl::StrCat("watch the run on http://", metrics, "/; metrics are on http://", metrics,
                       "/metrics"));
    }
    return absl::OkStatus();
  }

  // Also of a run that failed: then it tells what came before. False, and said, if
  // it could not be done.
  bool WriteTrace() {
    std::vector<std::string> files;
    const int processes = options_.workers + (NeedsCoordinator(options_) ? 1 : 0);
    for (int i = 0; i < processes; ++i) files.push_back(TraceFile(i, places_));
    // A process that fails before it has joined writes none.
    if (!supervisor_.cause().empty()) {
      const auto is_missing = [](const std::string& file) {
        return !std::filesystem::exists(file);
      };
      files.erase(std::remove_if(files.begin(), files.end(), is_missing), files.end());
    }
    files.insert(files.begin(), options_.trace);
    const absl::Status status = RunScript("cli/trace/merge.py", {}, environment_, files);
    if (!status.ok()) Say(absl::StrCat("--trace: ", status.message()));
    return status.ok();
  }

  int Report() {
    std::vector<std::string> files;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      files.push_back(SummaryFile(rank, places_));
    }
    const auto summaries = CollectSummaries(files);
    if (!summaries.ok()) {
      Say(std::string(summaries.status().message()));
      return kExitFailed;
    }
    const std::string table = SummaryTable(*summaries, options_.link_gbit);
    for (const auto line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
      terminal_.PrintLine(Output::kOut, line);
    }
    terminal_.PrintLine(Output::kOut, BottleneckSentence(*summaries, options_.link_gbit));
    if (options_.summary.empty()) return kExitDone;
    const absl::Status written = ReplaceFile(options_.summary, summaries->dump(2) + "\n");
    if (written.ok()) return kExitDone;
    Say(std::string(written.message()));
    return kExitFailed;
  }

  const LaunchOptions& options_;
  const LaunchPlaces& places_;
  const Environment& environment_;
  Terminal terminal_;
  Supervisor supervisor_;
};

}  // namespace

int LaunchCommand(const std::vector<std::string>& args, const Environment& environment) {
  const absl::StatusOr<Parsed<LaunchOptions>> parsed = ParseLaunchOptions(args, environment);
  if (const absl::optional<int> exit_code = EarlyExit(kProgram, parsed)) return *exit_code;
  const std::pair<const char*, std::string> outputs[] = {{"--summary", parsed->options.summary},
                                                         {"--trace", parsed->options.trace}};
  for (const auto& [option, path] : outputs) {
    const absl::Status writable = path.empty() ? absl::OkStatus() : CheckWritable(path);
    if (writable.ok()) continue;
    PrintUsageError(kProgram, absl::StrCat(option, ": ", writable.message()));
    return kExitUsage;
  }
  const ScratchDir scratch;
  if (scratch.path().empty()) {
    PrintUsageError(kProgram, "cannot make a folder for temporary files (TMPDIR)");
    return kExitFailed;
  }
  const LaunchPlaces places{ProgramDir(), scratch.path()};
  return Launch(parsed->options, places, environment).Run();
}

}  // namespace gradwire
