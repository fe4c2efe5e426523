#ifndef GRADWIRE_CLI_TERMINAL_COMMANDS_H_
#define GRADWIRE_CLI_TERMINAL_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"
#include "common/base/environment.h"

namespace gradwire {

// What `gradwire` calls, a function for each command; plan, env and experiment, which say more of
// themselves, have headers of their own.

// `gradwire bench collectives` and `gradwire bench training`: reads the options, then becomes
// the script that measures, prints and writes the report. Returns, with the exit code of the
// program, only if there is nothing to measure.
int BenchCommand(const std::vector<std::string>& args, const Environment& environment);

// The call is of doctor.py, which says what it takes. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also if options of hosts are given without any.
absl::StatusOr<Parsed<ScriptCall>> ParseDoctorOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire doctor`: whether a run would work, and what is in its way. Returns the exit code of the
// program.
int DoctorCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire launch`: reads the options, then becomes the script that runs a coordinator and workers
// on this machine. Returns, with the exit code of the program, only if nothing is to be started.
int LaunchCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire models`: this process becomes gradwire-models, which has torch. Returns, with the
// exit code of the program, only if that cannot be started.
int ModelsCommand(const std::vector<std::string>& args, const Environment& environment);

// Reads `args`, in which logs and options may stand in any order; what stands behind "--" are
// logs. The call is of report.py, which says what it takes. Errors as OptionParser::Parse.
absl::StatusOr<Parsed<ScriptCall>> ParseReportOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire report`: an HTML page, figures and CSV from the --log-jsonl
// files of one or several runs. Returns the exit code of the program.
int ReportCommand(const std::vector<std::string>& args, const Environment& environment);

// The call is of status.py, which says what it takes. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also if there is no one address to connect to.
absl::StatusOr<Parsed<ScriptCall>> ParseStatusOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire status`: what a running coordinator says of its run. Returns the exit
// code of the program.
int StatusCommand(const std::vector<std::string>& args, const Environment& environment);

// `gradwire trace --out FILE FILE...`: what `gradwire launch --trace` does at its end,
// for processes that were started by hand. Returns the exit code.
int TraceCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_COMMANDS_H_
