#include "absl/strings/str_cat.h"
#include "worker/backends/backend.h"

namespace gradwire {

// Each line's factory, in a file of its own, with its own errors.
#define GRADWIRE_BACKEND(name, factory, ...) \
  absl::StatusOr<std::unique_ptr<Backend>> factory(const BackendOptions& options);
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name,
                                                     const BackendOptions& options) {
#define GRADWIRE_BACKEND(row_name, factory, ...) \
  if (name == row_name) return factory(options);
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND
  std::string names;
#define GRADWIRE_BACKEND(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/backends/backends.inc"
#undef GRADWIRE_BACKEND
  return absl::NotFoundError(
      absl::StrCat("back end '", name, "' does not exist; expected one of:", names));
}

}  // namespace gradwire
