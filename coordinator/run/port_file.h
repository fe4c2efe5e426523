#ifndef GRADWIRE_COORDINATOR_RUN_PORT_FILE_H_
#define GRADWIRE_COORDINATOR_RUN_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace gradwire {

// Writes "grpc=HOST:PORT" and, if `metrics` is not empty, "metrics=HOST:PORT" to
// `path`, whole or not at all. FailedPrecondition says why it cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& grpc,
                           const std::string& metrics);

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_RUN_PORT_FILE_H_
