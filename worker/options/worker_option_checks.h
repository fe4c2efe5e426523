#ifndef GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_CHECKS_H_
#define GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "common/options/option_parser.h"
#include "worker/options/worker_options.h"

namespace gradwire {

// Whether an option comes from any layer but the defaults.
bool IsGiven(const Parsed<WorkerOptions>& parsed, const std::string& name);

// Whether options that are right each for itself fit together: those that are filled in, too.
// `backend_given`: by the user. InvalidArgument names the sources of two that do not, with what was
// got and what was expected; see ParseWorkerOptions.
absl::Status CheckWorkerOptions(const Parsed<WorkerOptions>& parsed, bool backend_given);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_OPTIONS_WORKER_OPTION_CHECKS_H_
