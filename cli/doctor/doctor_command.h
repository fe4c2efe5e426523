#ifndef GRADWIRE_CLI_DOCTOR_DOCTOR_COMMAND_H_
#define GRADWIRE_CLI_DOCTOR_DOCTOR_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/terminal/script.h"

namespace gradwire {

// The call is of doctor.py, which says what it takes. InvalidArgument and NotFound as
// OptionParser::Parse; InvalidArgument also if options of hosts are given without any.
absl::StatusOr<Parsed<ScriptCall>> ParseDoctorOptions(const std::vector<std::string>& args,
                                                      const Environment& environment);

// `gradwire doctor`: whether a run would work, and what is in its way. Returns the exit code of the
// program.
int DoctorCommand(const std::vector<std::string>& args, const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_DOCTOR_DOCTOR_COMMAND_H_
