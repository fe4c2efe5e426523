#ifndef GRADWIRE_COMMON_OPTIONS_VERSION_H_
#define GRADWIRE_COMMON_OPTIONS_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// What --version prints: "gradwire-worker 0.2.0", and below it a line for each of protocol,
// compiler, libtorch and gRPC of the build, and for the BLAS and the instruction sets that would
// be used here. The first line is equal wherever the program runs; hosts are compared by it.
std::string VersionText(absl::string_view program);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_OPTIONS_VERSION_H_
