#ifndef GRADWIRE_COMMON_SERVING_OPTIMIZER_MODULE_H_
#define GRADWIRE_COMMON_SERVING_OPTIMIZER_MODULE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_server/piece_optimizer.h"
#include "gradwire/v1/membership.pb.h"

namespace gradwire {

// An optimiser for these parameters, which outlive it. From any thread.
using MakePieceOptimizer =
    std::function<std::unique_ptr<PieceOptimizer>(absl::Span<float> parameters)>;

// That which `serving` names, one of torch's, with the bits that it has in a worker. It is in a
// module, libgradwire_optimizer.so (see PrivateFile), which the first call loads and which stays:
// who serves no model needs no torch. FailedPrecondition, with the reason: it cannot be loaded, or
// torch does not take it.
absl::StatusOr<MakePieceOptimizer> LoadPieceOptimizers(const v1::Serving& serving);

}  // namespace gradwire

#endif  // GRADWIRE_COMMON_SERVING_OPTIMIZER_MODULE_H_
