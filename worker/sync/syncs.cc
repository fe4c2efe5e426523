#include <string>

#include "absl/strings/str_cat.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// Each line's factory, in a file of its own.
#define GRADWIRE_SYNC(name, factory, ...) std::unique_ptr<Synchronizer> factory(Reducer* reducer);
#include "worker/sync/syncs.inc"
#undef GRADWIRE_SYNC

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Reducer* reducer) {
#define GRADWIRE_SYNC(row_name, factory, ...) \
  if (name == row_name) return factory(reducer);
#include "worker/sync/syncs.inc"
#undef GRADWIRE_SYNC
  std::string names;
#define GRADWIRE_SYNC(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/sync/syncs.inc"
#undef GRADWIRE_SYNC
  return absl::NotFoundError(
      absl::StrCat("sync '", name, "' does not exist; expected one of:", names));
}

}  // namespace gradwire
