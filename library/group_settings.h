#ifndef GRADWIRE_LIBRARY_GROUP_SETTINGS_H_
#define GRADWIRE_LIBRARY_GROUP_SETTINGS_H_

#include <gradwire/process_group.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/environment.h"
#include "common/compress/compression.h"
#include "common/options/security_options.h"
#include "gradwire/v1/chunk.pb.h"

namespace gradwire {

// GroupOptions with all defaults filled in.
struct GroupSettings {
  std::string coordinator = "127.0.0.1:29400";  // port 0: this process hosts it at a free port
  int rank = -1;                                // -1: assigned by the coordinator
  int world_size = 0;                           // 0: the coordinator's
  int local_rank = 0;
  bool host_coordinator = true;
  std::string coordinator_metrics;  // "": the usual address
  std::string backend = "auto";
  std::string shared_memory = "auto";
  std::string wire = "fp32";
  v1::DType wire_dtype = v1::DTYPE_FLOAT32;  // of `wire`, or the codec's
  std::string compress = kNoCompression;
  Compression compression;  // parsed `compress`
  int connections = 1;
  std::string name;
  std::string metrics;  // "": not served
  std::string trace;    // "": none
  std::string listen;   // empty: the interface towards the coordinator
  std::string advertise;
  absl::Duration connect_timeout;
  absl::Duration step_timeout;
  SecurityOptions security;
};

// Reads `options`, and the environment for fields that are not set; see GroupOptions.
// InvalidArgument names the option and its source, what was got, and what was expected.
absl::StatusOr<GroupSettings> ReadGroupSettings(const GroupOptions& options,
                                                const Environment& environment);

}  // namespace gradwire

#endif  // GRADWIRE_LIBRARY_GROUP_SETTINGS_H_
