#ifndef GRADWIRE_COMMON_BASE_ENVIRONMENT_H_
#define GRADWIRE_COMMON_BASE_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire {

// Environment variables by name. Passed as a value, so that whoever reads it
// can be tested, and so that a child's can be made from one's own.
using Environment = std::map<std::string, std::string>;

// What this process was started with.
Environment CurrentEnvironment();

// The value, or "" if it is absent. Everywhere in Gradwire a variable that is
// set to nothing counts as absent.
std::string Value(const Environment& environment, const std::string& name);

// "GRADWIRE_BATCH_SIZE" for "batch-size".
std::string VariableOf(absl::string_view option);

// One sentence for each GRADWIRE_* variable that no program of Gradwire knows,
// with the nearest one that exists.
std::vector<std::string> UnknownVariables(const Environment& environment);

// The folder of this program.
std::string ProgramDir();

// Path of a program or module that nobody types: beside this program if it is there, else in
// ../libexec/gradwire, as seen from this program's folder. In the build tree and where
// it is installed alike.
std::string PrivateFile(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_ENVIRONMENT_H_
