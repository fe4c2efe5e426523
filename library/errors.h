#ifndef GRADWIRE_LIBRARY_ERRORS_H_
#define GRADWIRE_LIBRARY_ERRORS_H_

#include <gradwire/error.h>

#include <cstdint>

#include "absl/status/status.h"

namespace gradwire {

// Converts a status (not OK) to an exception, for the whole library.
Error ToError(const absl::Status& status, int rank, int64_t step);

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_ERRORS_H_
