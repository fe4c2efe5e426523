#ifndef GRADWIRE_COMMON_PARAMETER_SERVER_OPTIMIZER_MODULE_H_
#define GRADWIRE_COMMON_PARAMETER_SERVER_OPTIMIZER_MODULE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_server/piece_optimizer.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// Creates an optimizer for these parameters, which must outlive it. From any thread.
using MakePieceOptimizer =
    std::function<std::unique_ptr<PieceOptimizer>(absl::Span<float> parameters)>;

// Returns the optimizer named by `serving`, one of torch's, with the same bits as in a worker. It
// is in a module, libgradwire_optimizer.so (see PrivateFile), which the first call loads and which
// stays loaded: an aggregator without a served model needs no torch. FailedPrecondition, with the
// reason, if it cannot be loaded or torch refuses the options.
absl::StatusOr<MakePieceOptimizer> LoadPieceOptimizers(const v1::Serving& serving);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_PARAMETER_SERVER_OPTIMIZER_MODULE_H_
