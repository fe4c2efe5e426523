#ifndef GRADWIRE_CLI_TERMINAL_COMMANDS_H_
#define GRADWIRE_CLI_TERMINAL_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"

namespace gradwire {

// The functions that run the commands of `gradwire`; plan, env and experiment have their own
// headers.
//
// Commands that are scripts replace this process. Their functions return only if the script cannot
// or need not start (--help): with the exit code of the program.

// `gradwire bench collectives` and `gradwire bench training`: reads the options, then runs the
// script that measures, prints and writes the report.
int BenchCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire checkpoint list|verify|export`: shows, checks and exports the checkpoints of a run
// directory. Returns the exit code.
int CheckpointCommand(const std::vector<std::string>& args, const Environment& environment);

// The call of doctor.py, which documents its input. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also if options need a --hostfile that is not given.
absl::StatusOr<Parsed<ScriptCall>> ParseDoctorOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire doctor`: checks whether a run would work.
int DoctorCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire launch`: reads the options, then runs the script that starts a coordinator and workers.
int LaunchCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire ledger show` and `gradwire ledger verify`: read the ledger of a run directory.
int LedgerCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire models`: replaces this process with gradwire-models, which links torch.
int ModelsCommand(const std::vector<std::string>& args, const Environment& environment);

// Reads `args`: logs and options in any order; arguments after "--" are logs. The call of
// report.py, which documents its input. Errors as OptionParser::Parse.
absl::StatusOr<Parsed<ScriptCall>> ParseReportOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire report`: makes an HTML page, figures and CSV from --log-jsonl files.
int ReportCommand(const std::vector<std::string>& args, const Environment& environment);

// The call of status.py, which documents its input. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also unless exactly one address is given or none.
absl::StatusOr<Parsed<ScriptCall>> ParseStatusOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire status`: shows the state of a run.
int StatusCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire trace --out FILE FILE...`: merges the traces of processes that were started by hand, as
// `gradwire launch --trace` does for its own.
int TraceCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_COMMANDS_H_
