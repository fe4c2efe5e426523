#include <string>

#include "absl/strings/str_cat.h"
#include "worker/learning/optimizer.h"

namespace gradwire {

// Each line's factory, in a file of its own or of its family.
#define GRADWIRE_OPTIMIZER(name, factory, ...) OptimizerKind factory(const OptimizerOptions&);
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER

absl::StatusOr<OptimizerKind> FindOptimizer(const OptimizerOptions& options) {
#define GRADWIRE_OPTIMIZER(row_name, factory, ...) \
  if (options.name == row_name) return factory(options);
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  std::string names;
#define GRADWIRE_OPTIMIZER(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/optimizers.inc"
#undef GRADWIRE_OPTIMIZER
  return absl::NotFoundError(
      absl::StrCat("optimizer '", options.name, "' does not exist; expected one of:", names));
}

}  // namespace gradwire
