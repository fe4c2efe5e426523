#ifndef GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_MODULE_H_
#define GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_MODULE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/backends/gloo/engine.h"

namespace gradwire {

// Loads libgradwire_gloo.so (see PrivateFile) and makes an engine of `groups` with it. The module
// stays loaded. FailedPrecondition if it cannot be loaded; says why.
absl::StatusOr<std::unique_ptr<GlooEngine>> LoadGlooEngine(int groups);

}  // namespace gradwire

#endif  // GRADWIRE_WORKER_BACKENDS_GLOO_GLOO_MODULE_H_
