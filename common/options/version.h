#ifndef GRADWIRE_COMMON_OPTIONS_VERSION_H_
#define GRADWIRE_COMMON_OPTIONS_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// Returns the text of --version: "gradwire-worker 0.2.0", then a line for each of protocol,
// compiler, libtorch and gRPC of the build, and for the BLAS and the instruction sets used here.
// The first line is the same on all hosts with this version, so hosts are compared by it.
std::string VersionText(absl::string_view program);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_VERSION_H_
