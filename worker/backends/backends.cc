#include <string>

#include "absl/strings/str_cat.h"
#include "worker/backends/backend.h"
#include "worker/options/choices.h"

namespace gradwire {

// Each row's factory is in its own file, with its own errors.
#define GRADWIRE_BACKEND(name, factory, ...) \
  absl::StatusOr<std::unique_ptr<Backend>> factory(const BackendOptions& options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
absl::StatusOr<std::unique_ptr<Backend>> MakeAutoBackend(const BackendOptions& options);

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options) {
#define GRADWIRE_BACKEND(row_name, factory, ...) \
  if (name == row_name) return factory(options);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  if (name == kAutoBackend) return MakeAutoBackend(options);
  std::string names;
#define GRADWIRE_BACKEND(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/backends.inc"
#undef GRADWIRE_BACKEND
  return absl::NotFoundError(absl::StrCat("back end '", name, "' does not exist; expected ",
                                          kAutoBackend, " or one of:", names));
}

}  // namespace gradwire
