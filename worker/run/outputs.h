#ifndef GRADWIRE_WORKER_RUN_OUTPUTS_H_
#define GRADWIRE_WORKER_RUN_OUTPUTS_H_

#include <vector>

#include "absl/status/status.h"
#include "common/base/ids.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// Whether `ranks` of one worker (one or more) can write the files that they are told to, each
// to one of its own. InvalidArgument: "cannot write …", or several ranks have one name.
absl::Status CheckOutputs(const WorkerOptions& options, const std::vector<Rank>& ranks);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_RUN_OUTPUTS_H_
