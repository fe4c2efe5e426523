#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/models/model.h"

namespace gradwire {

#define GRADWIRE_MODEL(name, factory, help) std::shared_ptr<Model> factory(int64_t classes);
#include "worker/options/models.inc"
#undef GRADWIRE_MODEL

namespace {

constexpr absl::string_view kNames = ""
#define GRADWIRE_MODEL(name, factory, help) " " name
#include "worker/options/models.inc"
#undef GRADWIRE_MODEL
    ;

}  // namespace

absl::StatusOr<std::shared_ptr<Model>> MakeModel(absl::string_view name, int64_t classes) {
#define GRADWIRE_MODEL(entry, factory, help) \
  if (name == entry) return factory(classes);
#include "worker/options/models.inc"
#undef GRADWIRE_MODEL
  return absl::NotFoundError(
      absl::StrCat("model '", name, "' does not exist; expected one of:", kNames));
}

}  // namespace gradwire
