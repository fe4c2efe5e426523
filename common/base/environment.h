#ifndef GRADWIRE_COMMON_BASE_ENVIRONMENT_H_
#define GRADWIRE_COMMON_BASE_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// Environment variables by name. A value, so that functions that read it can be tested and a
// child's environment can be derived.
using Environment = std::map<std::string, std::string>;

// Returns the environment of this process.
Environment CurrentEnvironment();

// Returns the value, or "" if it is absent. All of Gradwire treats an empty variable as absent.
std::string Value(const Environment& environment, const std::string& name);

// Returns "GRADWIRE_BATCH_SIZE" for "batch-size".
std::string VariableOf(absl::string_view option);

// Returns one sentence for each GRADWIRE_* variable that no program of Gradwire knows, with the
// nearest known one.
std::vector<std::string> UnknownVariables(const Environment& environment);

// Returns the folder of this program.
std::string ProgramDir();

// Returns the path of an internal program or module: beside this program if it exists there, else
// in ../libexec/gradwire, relative to this program's folder. Works in the build tree and when
// installed.
std::string PrivateFile(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_ENVIRONMENT_H_
