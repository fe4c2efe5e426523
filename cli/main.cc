// gradwire: the command that users type.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/env/env_command.h"
#include "cli/experiment/experiment_command.h"
#include "cli/plan/plan_command.h"
#include "cli/terminal/commands.h"
#include "common/base/environment.h"
#include "common/base/status_util.h"
#include "common/options/option_parser.h"

namespace gradwire {
namespace {

constexpr char kProgram[] = "gradwire";

struct Command {
  const char* name;
  const char* help;
  int (*run)(const std::vector<std::string>& args, const Environment& environment);
};

constexpr Command kCommands[] = {
    {"launch", "run a coordinator and workers on this machine or on several hosts", LaunchCommand},
    {"bench", "measure back ends and training; optionally PyTorch + Gloo, too", BenchCommand},
    {"models", "list the models: parameters, buffers, input, size", ModelsCommand},
    {"experiment", "reproduce the results of a course or paper: tables, figures, verdicts",
     ExperimentCommand},
    {"plan", "predict buckets, bytes and the minimum iteration time of a run", PlanCommand},
    {"trace", "merge the --trace files of several hosts into one time line", TraceCommand},
    {"status", "show the state of a run, from its coordinator; --watch follows it", StatusCommand},
    {"checkpoint", "list, check and export the checkpoints of a run", CheckpointCommand},
    {"report", "make an HTML page, figures and CSV from the --log-jsonl files of runs",
     ReportCommand},
    {"ledger", "show or verify what a run recorded in its --run-dir: views, losses, steps, samples",
     LedgerCommand},
    {"doctor", "find what would stop a run, here or on the hosts of a --hostfile", DoctorCommand},
    {"env", "show rank, world size and addresses, and where each comes from", EnvCommand},
};

std::string Help() {
  std::string text = "Usage: gradwire COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&text, "  ", command.name,
                    std::string(12 - std::string(command.name).size(), ' '), command.help, "\n");
  }
  absl::StrAppend(&text,
                  "\nOptions:\n"
                  "  -h,--help   Print this help and exit\n"
                  "  --version   Print version and build, and exit\n\n"
                  "'gradwire COMMAND --help' shows a command's options.\n");
  return text;
}

// Reports a missing or unknown command.
int NoCommand(const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  return NoSuchCommand(kProgram, "command", names, args);
}

int Main(int argc, char** argv) {
  const std::vector<std::string> args = Arguments(argc, argv);
  if (args.empty()) return NoCommand(args);
  if (const auto exit_code = HelpOrVersion(kProgram, Help(), args)) return *exit_code;
  for (const Command& command : kCommands) {
    if (args[0] == command.name) {
      return command.run({args.begin() + 1, args.end()}, CurrentEnvironment());
    }
  }
  return NoCommand(args);
}

}  // namespace
}  // namespace gradwire

int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
