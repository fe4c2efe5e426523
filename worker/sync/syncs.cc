#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/options/sync_choice.h"
#include "worker/sync/synchronizer.h"

namespace gradwire {

// Each row's factory, in its own file.
#define GRADWIRE_SYNC(name, factory, ...) \
  std::unique_ptr<Synchronizer> factory(Reducer* reducer, const SyncOptions& options);
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC

namespace {

using Factory = std::unique_ptr<Synchronizer> (*)(Reducer*, const SyncOptions&);

absl::StatusOr<Factory> FindFactory(absl::string_view name) {
#define GRADWIRE_SYNC(row_name, factory, ...) \
  if (name == row_name) return &factory;
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC
  std::string names;
#define GRADWIRE_SYNC(row_name, ...) absl::StrAppend(&names, " ", row_name);
#include "worker/options/syncs.inc"
#undef GRADWIRE_SYNC
  return absl::NotFoundError(
      absl::StrCat("sync '", name, "' does not exist; expected one of:", names));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Synchronizer>> MakeSynchronizer(absl::string_view name,
                                                               Reducer* reducer,
                                                               SyncOptions options) {
  const absl::StatusOr<Factory> factory = FindFactory(NameOfSync(name));
  if (!factory.ok()) return factory.status();
  const absl::StatusOr<int64_t> interval = IntervalOfSync(name);
  if (!interval.ok()) return interval.status();
  options.interval = *interval;
  return (*factory)(reducer, options);
}

}  // namespace gradwire
