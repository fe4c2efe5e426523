#ifndef GRADWIRE_CLI_TERMINAL_SCRIPT_H_
#define GRADWIRE_CLI_TERMINAL_SCRIPT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/environment.h"

namespace gradwire {

// Replaces this process, which keeps its id, by Debian's Python running the script
// PrivateFile(name), such as "cli/bench/bench_training.py", with `data` as its one argument;
// without the settings and packages of this user's Python, which may not fit Debian's. To be called
// before there is a second thread, and with no signal blocked. Returns only if it cannot be done:
//   InvalidArgument     a text in `data` is not UTF-8
//   NotFound            the script is not there
//   FailedPrecondition  Python cannot be started: why
absl::Status BecomeScript(absl::string_view name, const nlohmann::ordered_json& data,
                          const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_CLI_TERMINAL_SCRIPT_H_
