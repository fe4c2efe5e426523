#ifndef GRADWIRE_COMMON_BASE_UNIX_SECONDS_H_
#define GRADWIRE_COMMON_BASE_UNIX_SECONDS_H_

#include "absl/time/time.h"

namespace gradwire {

// As messages and JSON give times.
inline double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_BASE_UNIX_SECONDS_H_
