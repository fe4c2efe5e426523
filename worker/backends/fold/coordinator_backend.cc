#include "absl/strings/str_cat.h"
#include "worker/backends/fold/fold_backend.h"

namespace gradwire {

// Gather and Scatter at the coordinator, which folds whole gradients.
absl::StatusOr<std::unique_ptr<Backend>> MakeCoordinatorBackend(const BackendOptions& options) {
  auto endpoints = [options](const View&) {
    return std::vector<Endpoint>{{absl::StrCat("coordinator ", options.coordinator),
                                  options.coordinator,
                                  absl::nullopt,
                                  {0},
                                  kCoordinatorSilence}};
  };
  return std::make_unique<FoldBackend>(options, endpoints, false);
}

}  // namespace gradwire
