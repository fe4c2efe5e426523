#include "tests/support/oracle.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/process.h"

namespace gradwire::testing {

absl::StatusOr<nlohmann::json> AskOracle(absl::string_view script,
                                         const std::vector<std::string>& arguments) {
  // -I: no module from the caller's environment or folder comes in between.
  std::vector<std::string> command = {"-I", SourcePath(absl::StrCat("tests/oracle/", script))};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const auto python = Process::Start("/usr/bin/python3", command);
  const absl::StatusOr<int> exit_code = python->Wait(absl::Minutes(4));
  if (!exit_code.ok()) return exit_code.status();
  if (absl::StrContains(python->err(), "No module named")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the oracle needs `apt-get install python3-torch`: ", python->err()));
  }
  if (*exit_code != 0) {
    return absl::InternalError(absl::StrCat(script, " exited ", *exit_code, ": ", python->err()));
  }
  return nlohmann::json::parse(python->out());
}

}  // namespace gradwire::testing
