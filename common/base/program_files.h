#ifndef GRADWIRE_COMMON_BASE_PROGRAM_FILES_H_
#define GRADWIRE_COMMON_BASE_PROGRAM_FILES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// The folder of this program.
std::string ProgramDir();

// Path of a program or module that nobody types: beside this program if it is there, else in
// ../libexec/gradwire, as seen from this program's folder. In the build tree and where
// it is installed alike.
std::string PrivateFile(absl::string_view name);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_PROGRAM_FILES_H_
